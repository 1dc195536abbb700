#include "trace/import/bytes/window.hpp"

#include "base/bytes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace vram::trace {
namespace {
constexpr size_t kWindowBytes = size_t{128} << 10;
}

ByteWindow::ByteWindow(ByteSource& source, WindowOptions options)
    : source_(source), options_(std::move(options)) {
  buffer_.resize(kWindowBytes + kPadding);
}

bool ByteWindow::refill(const uint8_t* keep, size_t wanted) {
  const size_t kept_at = static_cast<size_t>(keep - buffer_.data());
  const size_t kept = end_ - kept_at;
  std::memmove(buffer_.data(), keep, kept);
  base_offset_ += kept_at;
  begin_ = 0;
  end_ = kept;
  while (end_ - begin_ < wanted && !ended_) {
    // Grows with what has really arrived, never by what a length field claims.
    if (end_ + kPadding >= buffer_.size()) buffer_.resize(buffer_.size() * 2);
    if (!read_more()) return false;
  }
  if (options_.progress) options_.progress(base_offset_ + end_, source_.total_bytes());
  return true;
}

bool ByteWindow::read_more() {
  const size_t room = buffer_.size() - kPadding - end_;
  const Result<size_t> count =
      source_.read({reinterpret_cast<std::byte*>(buffer_.data() + end_), room});
  if (!count) {
    error_ = count.error();
    return false;
  }
  end_ += *count;
  ended_ = *count == 0;
  if (base_offset_ + end_ > options_.max_bytes) {
    error_ = Error{Code::kTooLarge,
                   fmt::format("the file unpacks to more than {}, the limit against bombs",
                               format_bytes(options_.max_bytes))};
    return false;
  }
  return true;
}

uint64_t ByteWindow::skip(const uint8_t* keep, uint64_t count) {
  uint64_t skipped = 0;
  const uint8_t* at = keep;
  while (true) {
    const uint64_t step = std::min<uint64_t>(count - skipped, static_cast<uint64_t>(end() - at));
    skipped += step;
    at += step;
    if (skipped == count) break;
    const bool more = refill(at, 1);
    at = begin();
    if (!more || at == end()) break;
  }
  begin_ = static_cast<size_t>(at - buffer_.data());
  return skipped;
}

}  // namespace vram::trace
