// Program: a recorded program's requests to its allocator, without the allocator's results. Made
// from one device of a trace; can be run against any Allocator (run.hpp). Blocks are numbered 0 ..
// block_count - 1 in order of allocation.
#pragma once

#include "base/pod_vector.hpp"
#include "replay/baseline.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vram::replay {

enum class OpKind : uint8_t {
  kAlloc,       // size_bytes on stream, from pool
  kFree,        // nothing uses the block any more
  kFreeLater,   // the tensor was freed, but other streams use the block until kFreeCompleted
  kComplete,    // ... and now they are done
  kRefused,     // an OOM of the recorded program: its request of size_bytes failed
  kEmptyCache,  // the program gave back everything cached (torch.cuda.empty_cache)
  kGivenBack,   // a request begins before which memory went back: see Program::given_back
};

struct Op {
  int64_t time_ns = 0;  // since the first event; 0 without a clock
  uint64_t size_bytes = 0;
  uint32_t block = 0;
  uint32_t event = 0;  // its number in the device's trace
  trace::StreamId stream = 0;
  trace::PoolId pool = 0;  // kUnknownPool is taken as the default pool
  OpKind kind = OpKind::kAlloc;
  uint8_t unused[3] = {};
};
static_assert(sizeof(Op) == 32);

// A call the recorded allocator made to the driver: the truth an exact replay is compared with.
struct DriverCall {
  enum class Kind : uint8_t { kAlloc, kFree, kMap, kUnmap };
  Kind kind = Kind::kAlloc;
  uint64_t size_bytes = 0;
  uint64_t address = 0;
  uint32_t event = 0;
  friend bool operator==(const DriverCall&, const DriverCall&) = default;
};

// Memory that was there before the first event, empty or not: a segment, or a run of mapped pages.
struct InitialSegment {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  // Of an expandable one: the lowest address that the recording shows of its address space.
  uint64_t reservation_address = 0;
  trace::StreamId stream = 0;
  trace::PoolId pool = 0;
  bool is_small = false;
  bool is_expandable = false;
};

// What one kind of limit granted and refused: largest granted <= limit < smallest refused; known if
// a request was refused.
struct Bounds {
  uint64_t largest_granted_bytes = 0;
  // Of requests that failed completely.
  std::optional<uint64_t> smallest_oom_bytes;
  std::optional<uint64_t> smallest_refused_bytes;
};

// Bounds of the recorded process's limit: a memory fraction, or the end of the device's memory.
// largest kept <= garbage_collection_threshold * limit < smallest collected, if there were
// collections.
struct LimitBounds {
  // Expandable segments: a request maps less than a whole segment.
  bool kinds_differ = false;
  // As PyTorch compares: reserved bytes plus the whole requested segment, even if expandable
  // segments map less.
  Bounds fraction;
  // Bytes granted or needed by the device: reserved bytes and, for a request, what expandable
  // segments map for it.
  Bounds device;
  // At an OOM: reserved plus free bytes as reported by the driver: the upper bound for the process.
  std::optional<uint64_t> device_end_bytes;
  bool device_had_room = false;  // for a request that ended in an OOM
  uint64_t largest_kept_bytes = 0;
  std::optional<uint64_t> smallest_collected_bytes;
  [[nodiscard]] bool has_refused() const { return fraction.smallest_refused_bytes.has_value(); }
};

// Memory released directly before a request that took memory. Either the allocator released it,
// because a limit refused the request at first, or the program had called empty_cache; a recording
// does not contain the reason. The op is kGivenBack in the former case and kEmptyCache in the
// latter.
struct GivenBack {
  uint32_t op = 0;
  uint32_t event = 0;
  // The reserved bytes then and the requested ones, as in LimitBounds; 0: unknown.
  uint64_t fraction_bytes = 0;
  uint64_t device_bytes = 0;
};

// The program requests memory by kRefused ops in turn until it gets some, and by the kAlloc op
// behind them if it does not. Its next choice of the same number begins with the op that it got.
struct Choice {
  uint32_t first_op = 0;
  uint32_t refused_ops = 0;
  uint32_t number = 0;  // from 0
};

struct Program {
  PodVector<Op> ops;
  std::vector<Choice> choices;  // by op
  uint32_t block_count = 0;
  uint32_t stream_count = 1;
  // by StreamId; allocators that order streams order them by handle
  std::vector<uint64_t> stream_handles;
  std::vector<DriverCall> recorded_calls;
  // Of a dry run: no driver has given the addresses of recorded_calls.
  bool has_assumed_addresses = false;
  // The memory before the first event, by address. The blocks are numbered from 0; the first
  // initial_ops ops request them, for allocators that cannot restore the layout.
  std::vector<InitialSegment> initial_segments;
  std::vector<InitialBlock> initial_blocks;
  uint32_t initial_ops = 0;
  // Every initial block is in a segment and has a known size.
  bool knows_layout = false;
  // Private pools with non-expandable segments although the recorded setting is expandable: those
  // of a MemPool with its own allocator, and all of PyTorch before 2.9.
  std::vector<trace::PoolId> native_pools;
  int64_t duration_ns = 0;
  uint64_t largest_reserved_bytes = 0;
  LimitBounds limit_bounds;
  std::vector<GivenBack> given_back;
};

// Linear in the events, except for a search among the initial segments. `baseline`: the result of
// find_baseline(), if available.
[[nodiscard]] Program make_program(const trace::Trace& trace, const trace::DeviceTrace& device,
                                   Baseline baseline);
[[nodiscard]] Program make_program(const trace::Trace& trace, const trace::DeviceTrace& device);

// The calls that a recorded allocator made to the driver. Part of make_program; linear in the
// events.

[[nodiscard]] constexpr bool takes(trace::EventKind kind) {
  return kind == trace::EventKind::kSegmentAlloc || kind == trace::EventKind::kSegmentMap;
}
[[nodiscard]] constexpr bool gives_back(trace::EventKind kind) {
  return kind == trace::EventKind::kSegmentFree || kind == trace::EventKind::kSegmentUnmap;
}

// Without those of vram's pool: its recordings contain its pages, not its driver calls.
[[nodiscard]] std::vector<DriverCall> recorded_calls(const trace::Tables& tables,
                                                     std::span<const trace::Event> events);

// Which of a recording's out-of-memory errors the program survived.

// The number of ops up to the last allocation: a request refused before it was caught, and the
// program continued without; one refused after it ended the program.
[[nodiscard]] inline size_t ops_until_last_allocation(const Program& program) {
  size_t count = program.ops.size();
  while (count > 0 && program.ops[count - 1].kind != OpKind::kAlloc) --count;
  return count;
}

}  // namespace vram::replay
