// The fixed parts of a .vtrace file, byte for byte: the header of the file, the header of a frame,
// the trailer, and the limits a reader holds a file to. docs/vtrace.md is the specification; this
// is its code. Pure functions.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace vram::trace {

inline constexpr std::array<uint8_t, 8> kVtraceMagic = [] {
  std::array<uint8_t, kVtraceStart.size()> bytes{};
  std::ranges::copy(kVtraceStart, bytes.begin());
  return bytes;
}();
inline constexpr std::array<uint8_t, 8> kVtraceEndMagic = {'v', 't', 'r', '-', 'e', 'n', 'd', '\n'};
inline constexpr uint32_t kVtraceVersion = 1;

inline constexpr size_t kFileHeaderBytes = 24;
inline constexpr size_t kFrameHeaderBytes = 48;
inline constexpr size_t kTrailerBytes = 16;

// Origin::format of what was read from such a file: "vtrace 1", "vtrace 1, from <the format it was
// converted from>".
inline constexpr std::string_view kFormatPrefix = "vtrace ";
inline constexpr std::string_view kFormatFrom = ", from ";

// Limits. A file within them is read in bounded memory, whatever its length fields contain.
inline constexpr uint32_t kMaxFrameEvents = 64 * 1024;
inline constexpr uint32_t kMaxContentBytes = 32 * 1024 * 1024;  // of one frame, decompressed
inline constexpr uint32_t kMaxPayloadBytes = kMaxContentBytes + kMaxContentBytes / 128;
inline constexpr uint32_t kMaxTextBytes = 16 * 1024 * 1024;
inline constexpr uint32_t kMaxDevices = 4096;
inline constexpr uint32_t kMaxIndexedFrames =
    256 * 1024;  // past this a file has no index and is scanned

struct FileHeader {
  uint32_t version = kVtraceVersion;
  bool has_time = false;   // times are unix nanoseconds; without it they are all 0
  bool has_pools = false;  // events contain their pool
};

enum class FrameType : uint8_t {
  kMeta = 1,         // records: devices, settings, notes (meta.hpp)
  kTables = 2,       // what later frames refer to by id (tables.hpp)
  kEvents = 3,       // events of one device, in order (events.hpp)
  kState = 4,        // segments and blocks of one device (state.hpp)
  kAnnotations = 5,  // named regions' beginnings and ends (state.hpp)
  kIndex = 6,        // the frames before it (meta.hpp)
};

// A reader that does not know a frame's type skips it if this is set, and otherwise stops.
inline constexpr uint8_t kFrameSkippable = 1;

struct FrameHeader {
  FrameType type = FrameType::kMeta;
  uint8_t flags = 0;
  uint16_t device = 0;         // index of the device, in the order the file declares them
  uint32_t payload_bytes = 0;  // that follow this header: one zstd frame
  uint32_t content_bytes = 0;  // that they decompress to
  uint32_t item_count = 0;     // events, segments + blocks, annotations, or 0
  // number of the first event among its device's; of a state: the events before it
  uint64_t first_event = 0;
  int64_t min_time_ns = 0;  // of the items; they need not be in time order
  int64_t max_time_ns = 0;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

using FileHeaderBytes = std::array<uint8_t, kFileHeaderBytes>;
using FrameHeaderBytes = std::array<uint8_t, kFrameHeaderBytes>;
using TrailerBytes = std::array<uint8_t, kTrailerBytes>;

[[nodiscard]] FileHeaderBytes encode_file_header(const FileHeader& header);
[[nodiscard]] FrameHeaderBytes encode_frame_header(const FrameHeader& header);
[[nodiscard]] TrailerBytes encode_trailer(uint64_t index_offset);

// kBadInput where these are no such bytes; kUnsupported for a newer version.
[[nodiscard]] Result<FileHeader> decode_file_header(std::span<const uint8_t> bytes);
// kBadInput: no header, a wrong checksum, a length past a limit.
[[nodiscard]] Result<FrameHeader> decode_frame_header(const FrameHeaderBytes& bytes);
// The offset of the index frame.
[[nodiscard]] Result<uint64_t> decode_trailer(const TrailerBytes& bytes);

}  // namespace vram::trace
