// The frames of a .vtrace file: their fixed parts, byte for byte, and FrameReader, which reads them
// from a source one at a time: header checked, payload read, decompressed and checked. Between the
// bytes (VtraceSource) and reader.hpp.
#pragma once

#include "base/file.hpp"
#include "base/pod_vector.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace vram::trace {

// The fixed parts: the header of the file, the header of a frame, the trailer, and the limits a
// reader holds a file to. docs/vtrace.md is the specification; this is its code. Pure functions.

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
  kFigures = 7,      // figures that were read (state.hpp)
  kMarks = 8,        // collectives and copies (state.hpp)
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

// The source of a .vtrace file's bytes: a file, or memory. Readable at any offset; use it from one
// thread at a time.
class VtraceSource {
 public:
  virtual ~VtraceSource() = default;
  [[nodiscard]] virtual uint64_t size_bytes() const = 0;
  // Returns fewer bytes than requested only at the end.
  [[nodiscard]] virtual Result<size_t> read_at(uint64_t offset,
                                               std::span<uint8_t> buffer) const = 0;
};

class FileSource final : public VtraceSource {
 public:
  explicit FileSource(InputFile file) : file_(std::move(file)) {}
  [[nodiscard]] uint64_t size_bytes() const override { return file_.size_bytes(); }
  [[nodiscard]] Result<size_t> read_at(uint64_t offset, std::span<uint8_t> buffer) const override {
    return file_.read_at(offset, std::as_writable_bytes(buffer));
  }

 private:
  InputFile file_;
};

class MemorySource final : public VtraceSource {
 public:
  explicit MemorySource(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] uint64_t size_bytes() const override { return bytes_.size(); }
  [[nodiscard]] Result<size_t> read_at(uint64_t offset, std::span<uint8_t> buffer) const override {
    const size_t start = std::min<uint64_t>(offset, bytes_.size());
    const size_t count = std::min(buffer.size(), bytes_.size() - start);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(start), count, buffer.begin());
    return count;
  }

 private:
  std::span<const uint8_t> bytes_;
};

// One frame's content to and from zstd, with zstd's checksum of the content. Both keep their
// working memory between frames (a few MiB for the compressor, 200 KiB for the other); one thread
// at a time.
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

// Keeps the buffers of one frame.
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
