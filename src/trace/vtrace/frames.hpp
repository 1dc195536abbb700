// Frames of a source, one at a time: header checked, payload read, decompressed and checked.
// Between the bytes (source.hpp) and reader.hpp.
// Keeps the buffers of one frame.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/vtrace/compress.hpp"
#include "trace/vtrace/format.hpp"
#include "trace/vtrace/source.hpp"

#include <cstdint>
#include <span>

namespace vram::trace {

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
