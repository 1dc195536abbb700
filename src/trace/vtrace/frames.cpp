#include "trace/vtrace/frames.hpp"

namespace vram::trace {

Result<> FrameReader::read_exactly(uint64_t offset, std::span<uint8_t> buffer) const {
  const auto count = source_->read_at(offset, buffer);
  if (!count) return tl::unexpected(count.error());
  if (*count < buffer.size())
    return fail(Code::kBadInput, "the file ends at byte {}, {} bytes short", offset + *count,
                buffer.size() - *count);
  return {};
}

Result<FileHeader> FrameReader::file_header() const {
  FileHeaderBytes bytes{};
  const auto count = source_->read_at(0, bytes);
  if (!count) return tl::unexpected(count.error());
  return decode_file_header(std::span(bytes).first(*count));
}

Result<FrameHeader> FrameReader::header_at(uint64_t offset) const {
  FrameHeaderBytes bytes{};
  if (auto done = read_exactly(offset, bytes); !done) return tl::unexpected(done.error());
  auto header = decode_frame_header(bytes);
  if (!header) return header;
  const uint64_t left = source_->size_bytes() - offset - kFrameHeaderBytes;
  if (header->payload_bytes > left)
    return fail(Code::kBadInput, "the file ends at byte {}, {} bytes short", source_->size_bytes(),
                header->payload_bytes - left);
  return header;
}

Result<std::span<const uint8_t>> FrameReader::content_of(uint64_t offset,
                                                         const FrameHeader& header) {
  payload_.truncate(0);
  const std::span<uint8_t> payload(payload_.extend(header.payload_bytes), header.payload_bytes);
  if (auto done = read_exactly(offset + kFrameHeaderBytes, payload); !done)
    return tl::unexpected(done.error());
  return decompressor_.decompress(payload, header.content_bytes);
}

Result<uint64_t> FrameReader::trailer_at(uint64_t offset) const {
  TrailerBytes bytes{};
  if (auto done = read_exactly(offset, bytes); !done) return tl::unexpected(done.error());
  return decode_trailer(bytes);
}

}  // namespace vram::trace
