// Frames of a source, one at a time: header checked, payload read, decompressed and checked.
// Between the bytes (source.hpp) and reader.hpp.
// Keeps the buffers of one frame.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/vtrace/format.hpp"
#include "trace/vtrace/source.hpp"

#include <cstdint>
#include <memory>
#include <span>

// One frame's content to and from zstd, with zstd's checksum of the content. Both keep their
// working memory between frames (a few MiB for the compressor, 200 KiB for the other); one thread
// at a time.

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace vram::trace {

class Compressor {
 public:
  explicit Compressor(int level);
  // Compresses the parts, in order, to one zstd frame in payload (overwritten). Large parts start a
  // new block, so that each column has its own entropy tables; a decoder is not affected.
  [[nodiscard]] Result<> compress(std::span<const std::span<const uint8_t>> parts,
                                  PodVector<uint8_t>& payload);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
};

class Decompressor {
 public:
  Decompressor();
  // Exactly content_bytes bytes from exactly this payload, their checksum verified; anything else
  // is kBadInput. The content stays valid until the next call.
  [[nodiscard]] Result<std::span<const uint8_t>> decompress(std::span<const uint8_t> payload,
                                                            uint32_t content_bytes);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  PodVector<uint8_t> content_;
};

class FrameReader {
 public:
  explicit FrameReader(const VtraceSource& source) : source_(&source) {}

  [[nodiscard]] Result<FileHeader> file_header() const;
  // kBadInput if there is no complete, undamaged frame; the message has the reason.
  [[nodiscard]] Result<FrameHeader> header_at(uint64_t offset) const;
  // The decompressed content of the frame with that header at that offset, valid until the next
  // call.
  [[nodiscard]] Result<std::span<const uint8_t>> content_of(uint64_t offset,
                                                            const FrameHeader& header);
  // The offset of the index, from the trailer at that offset.
  [[nodiscard]] Result<uint64_t> trailer_at(uint64_t offset) const;

 private:
  [[nodiscard]] Result<> read_exactly(uint64_t offset, std::span<uint8_t> buffer) const;
  const VtraceSource* source_;
  PodVector<uint8_t> payload_;
  Decompressor decompressor_;
};

}  // namespace vram::trace
