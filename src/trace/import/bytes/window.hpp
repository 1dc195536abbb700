// ByteWindow: the part of a source that a parser reads: contiguous bytes, accessed through raw
// pointers and advanced by refill(). Holds 128 KiB; more only while a long text needs it. Use it
// from one thread.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace vram::trace {

struct WindowOptions {
  uint64_t max_bytes = uint64_t{1} << 40;  // of the decompressed content
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

class ByteWindow {
 public:
  // Readable, but meaningless, bytes after end(): a parser may load a whole word at the last byte.
  static constexpr size_t kPadding = 16;

  ByteWindow(ByteSource& source, WindowOptions options);

  [[nodiscard]] const uint8_t* begin() const { return buffer_.data() + begin_; }
  [[nodiscard]] const uint8_t* end() const { return buffer_.data() + end_; }
  // Drops everything before `keep` and reads until `wanted` bytes are available or the source ends.
  // Pointers move. Returns false if the source failed: see error().
  [[nodiscard]] bool refill(const uint8_t* keep, size_t wanted);
  // Drops `count` bytes from `keep` on without holding them; how many there were.
  [[nodiscard]] uint64_t skip(const uint8_t* keep, uint64_t count);

  [[nodiscard]] uint64_t offset_of(const uint8_t* at) const {
    return base_offset_ + static_cast<uint64_t>(at - buffer_.data());
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  bool read_more();
  ByteSource& source_;
  WindowOptions options_;
  PodVector<uint8_t> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t base_offset_ = 0;  // of buffer_[0]
  bool ended_ = false;
  std::optional<Error> error_;
};

}  // namespace vram::trace
