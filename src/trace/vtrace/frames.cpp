#include "trace/vtrace/frames.hpp"

#include "base/result.hpp"
#include "base/varint.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace vram::trace {
namespace {

constexpr uint32_t kFrameMarker = 0x4d524656;  // "VFRM"
constexpr uint32_t kHasTime = 1;
constexpr uint32_t kHasPools = 2;

// Little-endian whatever the machine is.
template <typename T>
void store(uint8_t* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}
template <typename T>
T load(const uint8_t* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << (8 * i)));
  return value;
}

}  // namespace

FileHeaderBytes encode_file_header(const FileHeader& header) {
  FileHeaderBytes bytes{};
  std::copy(kVtraceMagic.begin(), kVtraceMagic.end(), bytes.begin());
  store<uint32_t>(&bytes[8], header.version);
  store<uint32_t>(&bytes[12],
                  (header.has_time ? kHasTime : 0) | (header.has_pools ? kHasPools : 0));
  store<uint32_t>(&bytes[20], crc32c(std::span(bytes).first(20)));
  return bytes;
}

Result<FileHeader> decode_file_header(std::span<const uint8_t> bytes) {
  const size_t common = std::min(bytes.size(), kVtraceMagic.size());
  if (!std::equal(kVtraceMagic.begin(), kVtraceMagic.begin() + common, bytes.begin()))
    return fail(Code::kBadInput, "expected the first 8 bytes of a .vtrace file, found others");
  if (bytes.size() < kFileHeaderBytes)
    return fail(Code::kBadInput, "expected a .vtrace header of {} bytes, found {}",
                kFileHeaderBytes, bytes.size());
  FileHeader header;
  header.version = load<uint32_t>(&bytes[8]);
  // Asked before the checksum: where a newer version keeps its checksum is not known here.
  if (header.version > kVtraceVersion && header.version < 0x10000)
    return fail(Code::kUnsupported,
                "a .vtrace file of version {}; this vram reads up to version {}: use a newer vram",
                header.version, kVtraceVersion);
  if (load<uint32_t>(&bytes[20]) != crc32c(bytes.first(20)) || header.version == 0)
    return fail(Code::kBadInput, "the .vtrace header is damaged: its checksum does not match");
  header.has_time = (load<uint32_t>(&bytes[12]) & kHasTime) != 0;
  header.has_pools = (load<uint32_t>(&bytes[12]) & kHasPools) != 0;
  return header;
}

FrameHeaderBytes encode_frame_header(const FrameHeader& header) {
  FrameHeaderBytes bytes{};
  store<uint32_t>(&bytes[0], kFrameMarker);
  bytes[4] = static_cast<uint8_t>(header.type);
  bytes[5] = header.flags;
  store<uint16_t>(&bytes[6], header.device);
  store<uint32_t>(&bytes[8], header.payload_bytes);
  store<uint32_t>(&bytes[12], header.content_bytes);
  store<uint32_t>(&bytes[16], header.item_count);
  store<uint64_t>(&bytes[20], header.first_event);
  store<uint64_t>(&bytes[28], static_cast<uint64_t>(header.min_time_ns));
  store<uint64_t>(&bytes[36], static_cast<uint64_t>(header.max_time_ns));
  store<uint32_t>(&bytes[44], crc32c(std::span(bytes).first(44)));
  return bytes;
}

Result<FrameHeader> decode_frame_header(const FrameHeaderBytes& bytes) {
  if (load<uint32_t>(&bytes[0]) != kFrameMarker)
    return fail(Code::kBadInput, "expected the header of a frame, found other bytes");
  if (load<uint32_t>(&bytes[44]) != crc32c(std::span(bytes).first(44)))
    return fail(Code::kBadInput, "the frame's header is damaged: its checksum does not match");
  FrameHeader header;
  header.type = static_cast<FrameType>(bytes[4]);
  header.flags = bytes[5];
  header.device = load<uint16_t>(&bytes[6]);
  header.payload_bytes = load<uint32_t>(&bytes[8]);
  header.content_bytes = load<uint32_t>(&bytes[12]);
  header.item_count = load<uint32_t>(&bytes[16]);
  header.first_event = load<uint64_t>(&bytes[20]);
  header.min_time_ns = static_cast<int64_t>(load<uint64_t>(&bytes[28]));
  header.max_time_ns = static_cast<int64_t>(load<uint64_t>(&bytes[36]));
  if (header.payload_bytes > kMaxPayloadBytes || header.content_bytes > kMaxContentBytes)
    return fail(Code::kBadInput, "the frame claims {} bytes, decompressed {}; the limit is {}",
                header.payload_bytes, header.content_bytes, kMaxContentBytes);
  if (header.type == FrameType::kEvents && header.item_count > kMaxFrameEvents)
    return fail(Code::kBadInput, "the frame claims {} events; the limit is {}", header.item_count,
                kMaxFrameEvents);
  return header;
}

TrailerBytes encode_trailer(uint64_t index_offset) {
  TrailerBytes bytes{};
  store<uint64_t>(&bytes[0], index_offset);
  std::copy(kVtraceEndMagic.begin(), kVtraceEndMagic.end(), bytes.begin() + 8);
  return bytes;
}

Result<uint64_t> decode_trailer(const TrailerBytes& bytes) {
  if (!std::equal(kVtraceEndMagic.begin(), kVtraceEndMagic.end(), bytes.begin() + 8))
    return fail(Code::kBadInput, "expected the end mark of a .vtrace file, found other bytes");
  return load<uint64_t>(&bytes[0]);
}

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
