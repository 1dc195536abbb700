// ByteSource: a recording's bytes, front to back, whatever they are packed in. The first step of an
// import:
//
//     file ──▶ source (plain, gz, zst, xz) ──▶ window ──▶ pickle machine ──▶ snapshot sink ──▶
//     Trace
//
// A source holds two buffers of 64 KiB and its decompressor's own state, never the file. One thread
// at a time.
#pragma once

#include "base/file.hpp"
#include "base/pod_vector.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace vram::trace {

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  // Up to buffer.size() bytes; 0 means the end. Errors: kIo, and kBadInput for damaged compressed
  // data.
  [[nodiscard]] virtual Result<size_t> read(std::span<std::byte> buffer) = 0;
  // After the end: the compressed data stopped before its own end mark.
  [[nodiscard]] virtual bool is_truncated() const { return false; }
  // "gz", "zst", "xz"; empty for plain bytes.
  [[nodiscard]] virtual std::string_view compression() const { return {}; }
  // Total of decompressed bytes, if known; else 0.
  [[nodiscard]] virtual uint64_t total_bytes() const { return 0; }
  // Compressed bytes that have been unpacked so far; 0: of plain bytes.
  [[nodiscard]] virtual uint64_t packed_bytes() const { return 0; }
};

[[nodiscard]] std::unique_ptr<ByteSource> file_source(InputFile file);
// The bytes must outlive the source.
[[nodiscard]] std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes);

// Detects the format from the first bytes of `packed` and decompresses it; concatenated members or
// frames are one stream, as for the tools gzip, zstd and xz.
[[nodiscard]] Result<std::unique_ptr<ByteSource>> decompressed(std::unique_ptr<ByteSource> packed);

// ByteWindow: the part of a source that a parser reads: contiguous bytes, accessed through raw
// pointers and advanced by refill(). Holds 128 KiB; more only while a long text needs it. Use it
// from one thread.

// A compressed file that has unpacked to this many bytes, and to so many times its own, is a bomb.
// JSON of snapshots, which repeats whole stacks, is packed to a few hundredths.
inline constexpr uint64_t kMinBombBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMinBombFactor = 1000;

struct WindowOptions {
  uint64_t max_bytes = uint64_t{1} << 40;  // of the decompressed content
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
  uint64_t min_bomb_bytes = kMinBombBytes;
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
  [[nodiscard]] bool is_bomb() const;
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
