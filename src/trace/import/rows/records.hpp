// Records: a text, a line at a time. Internal to import/; one thread at a time.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::trace::rows {

inline constexpr size_t kMaxRecordBytes = size_t{64} << 20;

// The text between line ends; those within quotes, if the format has them, are part of it.
class Records {
 public:
  Records(ByteWindow& window, bool has_quotes)
      : window_(window), has_quotes_(has_quotes), at_(window.begin()) {}

  // Valid until the next call; nothing at the end. Errors: those of the source, and kTooLarge.
  [[nodiscard]] Result<std::optional<std::string_view>> next() {
    size_t scanned = 0;
    bool is_quoted = false;
    while (true) {
      const auto there = static_cast<size_t>(window_.end() - at_);
      for (; scanned < there; ++scanned) {
        if (at_[scanned] == '"' && has_quotes_) is_quoted = !is_quoted;
        if (at_[scanned] == '\n' && !is_quoted) return taken(scanned, scanned + 1);
      }
      if (there > kMaxRecordBytes) {
        return fail(Code::kTooLarge, "expected rows of at most {}, found a longer one at byte {}",
                    format_bytes(kMaxRecordBytes), format_count(window_.offset_of(at_)));
      }
      if (!window_.refill(at_, there + 1)) return tl::unexpected(*window_.error());
      at_ = window_.begin();
      if (static_cast<size_t>(window_.end() - at_) > there) continue;
      if (there == 0) return std::nullopt;
      is_open_ = true;
      return taken(there, there);
    }
  }
  // Where the last record began.
  [[nodiscard]] uint64_t begin() const { return begin_; }
  // The last record has no line end: the file may have been cut in it.
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  std::string_view taken(size_t length, size_t with_end) {
    begin_ = window_.offset_of(at_);
    std::string_view text(reinterpret_cast<const char*>(at_), length);
    at_ += with_end;
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
  }

  ByteWindow& window_;
  bool has_quotes_;
  const uint8_t* at_;
  uint64_t begin_ = 0;
  bool is_open_ = false;
};

}  // namespace vram::trace::rows
