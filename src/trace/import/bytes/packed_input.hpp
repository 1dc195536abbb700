// PackedInput: the compressed side of a decompressing source: a buffer of not yet unpacked bytes.
// Private to bytes/.
#pragma once

#include "trace/import/bytes/source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vram::trace {

inline constexpr size_t kBufferBytes = size_t{64} << 10;

class PackedInput {
 public:
  explicit PackedInput(std::unique_ptr<ByteSource> source);

  // Makes pending() non-empty unless the source has ended.
  [[nodiscard]] Result<> fill();
  [[nodiscard]] std::span<const std::byte> pending() const {
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  void consume(size_t bytes) { begin_ += bytes; }
  [[nodiscard]] bool ended() const { return ended_ && begin_ == end_; }
  // Compressed bytes consumed so far: where damaged data is reported.
  [[nodiscard]] uint64_t offset() const { return read_bytes_ - (end_ - begin_); }
  [[nodiscard]] ByteSource& source() { return *source_; }

 private:
  std::unique_ptr<ByteSource> source_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t read_bytes_ = 0;
  bool ended_ = false;
};

[[nodiscard]] Result<std::unique_ptr<ByteSource>> gz_source(PackedInput input);
[[nodiscard]] Result<std::unique_ptr<ByteSource>> zstd_source(PackedInput input);
[[nodiscard]] Result<std::unique_ptr<ByteSource>> xz_source(PackedInput input);

}  // namespace vram::trace
