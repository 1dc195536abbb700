#include "trace/vtrace/frames.hpp"

#include "base/result.hpp"

#include <zstd.h>

namespace vram::trace {

Result<> FrameReader::read_exactly(uint64_t offset, std::span<uint8_t> buffer) const {
  VRAM_TRY_ASSIGN(const auto count, source_->read_at(offset, buffer));
  if (count < buffer.size())
    return fail(Code::kBadInput, "the file ends at byte {}, {} bytes short", offset + count,
                buffer.size() - count);
  return {};
}

Result<FileHeader> FrameReader::file_header() const {
  FileHeaderBytes bytes{};
  VRAM_TRY_ASSIGN(const auto count, source_->read_at(0, bytes));
  return decode_file_header(std::span(bytes).first(count));
}

Result<FrameHeader> FrameReader::header_at(uint64_t offset) const {
  FrameHeaderBytes bytes{};
  VRAM_TRY(read_exactly(offset, bytes));
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
  VRAM_TRY(read_exactly(offset + kFrameHeaderBytes, payload));
  return decompressor_.decompress(payload, header.content_bytes);
}

Result<uint64_t> FrameReader::trailer_at(uint64_t offset) const {
  TrailerBytes bytes{};
  VRAM_TRY(read_exactly(offset, bytes));
  return decode_trailer(bytes);
}

namespace {

// Below this a block's header and tables cost more than its own statistics give.
constexpr size_t kOwnBlockBytes = 1024;

// RFC 8878, 3.1.1.1.1: bit 2 of the byte after the magic says that a checksum of the content
// follows it.
constexpr size_t kDescriptorAt = 4;
constexpr uint8_t kChecksumBit = 0x04;

}  // namespace

void Compressor::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void Decompressor::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

Compressor::Compressor(int level) : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) return;  // compress() reports it
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
}

Result<> Compressor::compress(std::span<const std::span<const uint8_t>> parts,
                              PodVector<uint8_t>& payload) {
  if (context_ == nullptr) return fail(Code::kIo, "no memory for the compressor");
  size_t total = 0;
  for (const auto& part : parts) total += part.size();
  payload.truncate(0);
  const size_t room = ZSTD_compressBound(total) + 16 * parts.size();
  ZSTD_outBuffer output{payload.extend(room), room, 0};
  ZSTD_CCtx_reset(context_.get(), ZSTD_reset_session_only);
  ZSTD_CCtx_setPledgedSrcSize(context_.get(), total);
  size_t unflushed = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    unflushed += parts[i].size();
    const bool own_block = unflushed >= kOwnBlockBytes;
    const auto mode = is_last ? ZSTD_e_end : own_block ? ZSTD_e_flush : ZSTD_e_continue;
    if (own_block) unflushed = 0;
    ZSTD_inBuffer input{parts[i].data(), parts[i].size(), 0};
    size_t left = 0;
    do {
      left = ZSTD_compressStream2(context_.get(), &output, &input, mode);
      if (ZSTD_isError(left) != 0)
        return fail(Code::kIo, "zstd cannot compress: {}", ZSTD_getErrorName(left));
      if (output.pos == output.size && left != 0) return fail(Code::kIo, "zstd exceeds its bound");
    } while (mode == ZSTD_e_continue ? input.pos < input.size : left != 0);
  }
  payload.truncate(output.pos);
  return {};
}

Decompressor::Decompressor() : context_(ZSTD_createDCtx()) {}

Result<std::span<const uint8_t>> Decompressor::decompress(std::span<const uint8_t> payload,
                                                          uint32_t content_bytes) {
  if (context_ == nullptr) return fail(Code::kIo, "no memory for the decompressor");
  const unsigned long long claimed = ZSTD_getFrameContentSize(payload.data(), payload.size());
  const size_t length = ZSTD_findFrameCompressedSize(payload.data(), payload.size());
  if (ZSTD_isError(length) != 0 || length != payload.size() || claimed != content_bytes)
    return fail(Code::kBadInput,
                "the frame is damaged: its payload is not one zstd frame of {} bytes",
                content_bytes);
  if ((static_cast<uint8_t>(payload[kDescriptorAt]) & kChecksumBit) == 0)
    return fail(Code::kBadInput, "the frame is damaged: its payload has no checksum");
  content_.truncate(0);
  uint8_t* content = content_.extend(content_bytes);
  const size_t got =
      ZSTD_decompressDCtx(context_.get(), content, content_bytes, payload.data(), payload.size());
  if (ZSTD_isError(got) != 0)
    return fail(Code::kBadInput, "the frame is damaged: {}", ZSTD_getErrorName(got));
  if (got != content_bytes)
    return fail(Code::kBadInput, "the frame is damaged: it holds {} bytes, expected {}", got,
                content_bytes);
  return std::span<const uint8_t>(content, content_bytes);
}

}  // namespace vram::trace
