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
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

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
};

[[nodiscard]] std::unique_ptr<ByteSource> file_source(InputFile file);
// The bytes must outlive the source.
[[nodiscard]] std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes);

// Detects the format from the first bytes of `packed` and decompresses it; concatenated members or
// frames are one stream, as for the tools gzip, zstd and xz.
[[nodiscard]] Result<std::unique_ptr<ByteSource>> decompressed(std::unique_ptr<ByteSource> packed);

}  // namespace vram::trace
