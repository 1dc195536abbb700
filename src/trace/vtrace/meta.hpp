// The content of a meta frame: records of a tag, a length and a body. Meta frames may be anywhere
// in a file; readers skip records with unknown tags, so that later versions can add some.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/trace.hpp"
#include "trace/vtrace/frames.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vram::trace {

struct VtraceDevice {
  DeviceKind kind = DeviceKind::kGpu;
  uint32_t ordinal = 0;
  bool ring_overflowed = false;
};

class MetaEncoder {
 public:
  void put_origin_format(std::string_view format);
  void put_origin_truncated(uint64_t at_byte);
  void put_note(const Note& note);
  void put_setting(const Setting& setting);
  void put_about(const Setting& about);
  // Devices are numbered in the order of these records.
  void put_device(DeviceKind kind, uint32_t ordinal);
  void put_ring_overflowed(uint16_t device);

  [[nodiscard]] std::span<const uint8_t> content() const { return content_.span(); }
  void clear() { content_.truncate(0); }

 private:
  void put_record(uint64_t tag);  // with body_, which it empties
  PodVector<uint8_t> content_;
  PodVector<uint8_t> body_;
};

// Adds the records to the trace (origin, settings, about) and to the list of devices.
[[nodiscard]] Result<> decode_meta(std::span<const uint8_t> content, Trace& trace,
                                   std::vector<VtraceDevice>& devices);

// The positions and times of a file's frames, for programs that read a part of a long recording.
// Written as the last frame of a finished file. The frames' headers contain the same, so a file
// without it (its writer was killed) can be read in the same way. reader.hpp, which reads whole
// files, needs neither.

void encode_index(std::span<const FrameHeader> frames, PodVector<uint8_t>& content);

}  // namespace vram::trace
