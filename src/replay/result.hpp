// ReplayResult: what would have happened, as plain values for show/ and explain/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::replay {

struct DriverCallCount {
  std::string name;  // "cudaMalloc", "cuMemCreate", ...
  uint64_t count = 0;
  int64_t time_ns = 0;  // estimated from measured costs
};

// The most that was held at any time in one of equal slices of the recorded time.
struct CurvePoint {
  int64_t time_ns = 0;
  uint64_t requested_bytes = 0;
  uint64_t reserved_bytes = 0;
};

struct ReplayOom {
  uint64_t event = 0;
  int64_t time_ns = 0;
  uint64_t requested_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t largest_free_bytes = 0;  // largest free block that the request might have used
};

// From what state of its memory a replay set out.
enum class Start : uint8_t {
  kBeginning,  // nothing was alive when the recording begins
  kRecorded,   // segments, blocks and free memory as the recorded allocator had them then
  kModel,      // the initial blocks are requested again, in order of address
};

// How far a replay of the recorded settings, under the limit that the recorded program met, made
// the recorded calls to the driver: what trust in all other replays of the recording rests on.
struct Fidelity {
  uint64_t recorded_calls = 0;
  uint64_t made_calls = 0;
  uint64_t matched_calls = 0;  // equal, up to the first that is not
  // Reserved bytes; 0 if the memory before the first event is unknown.
  uint64_t recorded_peak_bytes = 0;
  uint64_t made_peak_bytes = 0;
  // The recording begins with live blocks and with its maximum of reserved bytes: the program's
  // peak may be earlier, so no saving can be computed from it.
  bool peak_is_before = false;
  // The first live blocks exceed the known segments: no end state contains the reserved bytes, as
  // in an export of such a recording. The peak is then assumed to be earlier.
  bool start_is_unknown = false;
  uint64_t start_reserved_bytes = 0;
  [[nodiscard]] bool is_exact() const {
    return recorded_calls > 0 && matched_calls == recorded_calls && made_calls == recorded_calls;
  }
};

// How exact the figures of a replay are.
enum class Basis : uint8_t {
  kExact,     // every recorded call to the driver came out
  kEmulated,  // of an allocator whose replay with the recorded settings was exact, from the
              // beginning
  kEstimate,  // of such an allocator, but that replay was not exact, or the start is assumed
  kModel,     // of an approximation of the allocator
};

struct ReplayResult {
  std::string allocator;   // the spec, normalised
  bool model = false;      // an approximation of the allocator; false: the same rules
  std::string model_note;  // the measurement with which a model was compared
  // Every request was served that the recorded program was served, and the one that ended it.
  bool completed = false;
  bool gave_up = false;  // at ReplayOptions::max_driver_calls: no figure is that of the program
  // With memory being taken and released at a capacity, the driver's addresses can decide whether
  // the program completes. Number of tried address layouts, and of those with which it completes.
  // If any does, completed is true and the figures are of the first one.
  uint32_t layouts_tried = 1;
  uint32_t layouts_completed = 0;
  Start start = Start::kBeginning;
  uint64_t start_reserved_bytes = 0;
  // Calls to the driver; of these, equal to the recorded ones in kind, size and order, up to the
  // first that is not.
  uint64_t made_calls = 0;
  uint64_t matched_calls = 0;
  // Released memory was taken again, at addresses that are not in the recording.
  bool may_depend_on_addresses = false;
  std::optional<ReplayOom> oom;  // if it did not complete
  // Refused requests without which the recorded program continued, and that were refused here,
  // too; the first of them.
  uint64_t caught_ooms = 0;
  std::optional<ReplayOom> caught_oom;
  std::optional<uint64_t> capacity_bytes;
  uint64_t peak_reserved_bytes = 0;
  uint64_t peak_active_bytes = 0;
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_requested_bytes = 0;
  double utilization = 0;  // peak requested / peak reserved
  uint64_t device_allocs = 0;
  uint64_t device_frees = 0;
  uint64_t retries = 0;
  uint64_t stream_waits = 0;
  int64_t driver_time_ns = 0;
  std::vector<DriverCallCount> driver_calls;
  std::vector<CurvePoint> curve;
  std::optional<uint64_t> min_capacity_bytes;
  std::optional<uint64_t> min_capacity_retries;
};

}  // namespace vram::replay
