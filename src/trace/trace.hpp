// Trace: a recording in memory. Readers and importers make it (open.hpp); explain/ and the
// exporters take it by const reference. One array contains the events of all devices, one device
// after another.
#pragma once

#include "base/pod_vector.hpp"
#include "trace/event.hpp"
#include "trace/tables.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vram::trace {

enum class DeviceKind : uint8_t { kGpu = 0, kHost = 1 };  // kHost: torch's pinned-memory allocator

struct DeviceTrace {
  uint32_t ordinal = 0;
  DeviceKind kind = DeviceKind::kGpu;
  uint64_t first_event = 0;  // range in Trace::events
  uint64_t event_count = 0;
  // Segments and blocks are the allocator's state after the last event.
  bool has_end_state = false;
  bool ring_overflowed = false;   // the recorder dropped older events
  std::vector<Segment> segments;  // by address
  PodVector<Block> blocks;
};

// Something that the reader had to leave out or assume; shown once in each report. `count`: how
// often.
struct Note {
  std::string text;
  uint64_t count = 1;
};

struct Origin {
  std::string path;
  std::string format;  // "PyTorch snapshot (pickle protocol 4, xz)", "vtrace 1"
  uint64_t file_bytes = 0;
  // In the decompressed content; everything complete before it was kept.
  std::optional<uint64_t> truncated_at_byte;
  std::vector<Note> notes;
};

// Allocator settings as the producer wrote them, nested keys joined by '.': {"max_split_size",
// "-1"}.
struct Setting {
  std::string key;
  std::string value;
};

struct Trace {
  Origin origin;
  bool has_time = false;    // events carry clock times
  bool has_stacks = false;  // at least one event or block has a stack
  // Events contain their pool; otherwise pools were deduced from the end state.
  bool has_pools = false;
  Tables tables;
  PodVector<Event> events;
  std::vector<DeviceTrace> devices;     // by (kind, ordinal); only those with events or segments
  std::vector<Annotation> annotations;  // in recorded order
  std::vector<Figure> figures;          // in recorded order
  std::vector<Mark> marks;              // in recorded order
  std::vector<Setting> settings;
  // process and machine: {"process.pid", "4711"}; empty where not recorded
  std::vector<Setting> about;

  [[nodiscard]] std::span<const Event> events_of(const DeviceTrace& device) const {
    return events.span().subspan(device.first_event, device.event_count);
  }
};

}  // namespace vram::trace
