#include "trace/vtrace/format.hpp"

#include "base/varint.hpp"

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

}  // namespace vram::trace
