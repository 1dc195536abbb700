#include "trace/import/bytes/source.hpp"

#include "base/bytes.hpp"
#include "trace/import/bytes/packed_input.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace vram::trace {

PackedInput::PackedInput(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), buffer_(kBufferBytes) {}

Result<> PackedInput::fill() {
  if (begin_ != end_ || ended_) return {};
  const Result<size_t> count = source_->read(buffer_);
  if (!count) return tl::unexpected(count.error());
  begin_ = 0;
  end_ = *count;
  read_bytes_ += *count;
  ended_ = *count == 0;
  return {};
}

namespace {

class FileSource final : public ByteSource {
 public:
  explicit FileSource(InputFile file) : file_(std::move(file)) {}
  Result<size_t> read(std::span<std::byte> buffer) override { return file_.read(buffer); }
  [[nodiscard]] uint64_t total_bytes() const override { return file_.size_bytes(); }

 private:
  InputFile file_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : rest_(bytes), total_(bytes.size()) {}
  Result<size_t> read(std::span<std::byte> buffer) override {
    const size_t count = std::min(buffer.size(), rest_.size());
    if (count != 0) std::memcpy(buffer.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }
  [[nodiscard]] uint64_t total_bytes() const override { return total_; }

 private:
  std::span<const std::byte> rest_;
  uint64_t total_;
};

// Not compressed: what the look at the first bytes took in, then the source itself.
class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(PackedInput input) : input_(std::move(input)) {}
  Result<size_t> read(std::span<std::byte> buffer) override {
    const std::span<const std::byte> pending = input_.pending();
    if (pending.empty()) return input_.source().read(buffer);
    const size_t count = std::min(buffer.size(), pending.size());
    if (count != 0) std::memcpy(buffer.data(), pending.data(), count);
    input_.consume(count);
    return count;
  }
  [[nodiscard]] uint64_t total_bytes() const override { return total_bytes_; }
  void set_total(uint64_t bytes) { total_bytes_ = bytes; }

 private:
  PackedInput input_;
  uint64_t total_bytes_ = 0;
};

bool starts_with(std::span<const std::byte> bytes, std::span<const uint8_t> magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

constexpr std::array<uint8_t, 2> kGzMagic = {0x1f, 0x8b};
constexpr std::array<uint8_t, 4> kZstdMagic = {0x28, 0xb5, 0x2f, 0xfd};
constexpr std::array<uint8_t, 6> kXzMagic = {0xfd, '7', 'z', 'X', 'Z', 0x00};

}  // namespace

std::unique_ptr<ByteSource> file_source(InputFile file) {
  return std::make_unique<FileSource>(std::move(file));
}

std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

Result<std::unique_ptr<ByteSource>> decompressed(std::unique_ptr<ByteSource> packed) {
  const uint64_t total = packed->total_bytes();
  PackedInput input(std::move(packed));
  if (Result<> filled = input.fill(); !filled) return tl::unexpected(filled.error());
  const std::span<const std::byte> head = input.pending();
  if (starts_with(head, kGzMagic)) return gz_source(std::move(input));
  if (starts_with(head, kZstdMagic)) return zstd_source(std::move(input));
  if (starts_with(head, kXzMagic)) return xz_source(std::move(input));
  auto plain = std::make_unique<PlainSource>(std::move(input));
  plain->set_total(total);
  return plain;
}

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
