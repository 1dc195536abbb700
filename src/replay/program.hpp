// Program: what a recorded program asked of its allocator, without what the allocator answered.
// Made from one device of a trace; run against any Allocator (run.hpp). Blocks are numbered 0 ..
// block_count - 1 in order of allocation.
#pragma once

#include "base/pod_vector.hpp"
#include "replay/baseline.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::replay {

enum class OpKind : uint8_t {
  kAlloc,       // size_bytes on stream, from pool
  kFree,        // nothing uses the block any more
  kFreeLater,   // the tensor is gone, other streams still use the block ...
  kComplete,    // ... and now they are done
  kRefused,     // the recorded program asked for size_bytes here and got an OOM
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

// What one kind of limit granted and refused: largest granted <= limit < smallest refused, known
// where something was refused.
struct Bounds {
  uint64_t largest_granted_bytes = 0;
  std::optional<uint64_t> smallest_oom_bytes;  // refused for good
  std::optional<uint64_t> smallest_refused_bytes;
};

// Bounds on the limit of the recorded process: a memory fraction, or the end of the device.
// largest kept <= garbage_collection_threshold * limit < smallest collected, where it collected.
struct LimitBounds {
  bool kinds_differ = false;  // expandable segments: what a request maps is not the whole segment
  // As PyTorch compares: reserved bytes and the whole segment asked for, also where expandable
  // segments map less.
  Bounds fraction;
  // Bytes that the device gave or would have had to give at most: reserved and, for a request,
  // what expandable segments map for it where nothing is there yet.
  Bounds device;
  // At an OOM: reserved, and what the driver called free. More the process could not have.
  std::optional<uint64_t> device_end_bytes;
  bool device_had_room = false;  // for a request that ended in an OOM
  uint64_t largest_kept_bytes = 0;
  std::optional<uint64_t> smallest_collected_bytes;
  [[nodiscard]] bool has_refused() const { return fraction.smallest_refused_bytes.has_value(); }
};

// Memory that went back right before a request took some. Either the allocator gave it back itself,
// because a limit refused the request at first, or the program had called empty_cache: recordings
// do not tell. The op is kGivenBack in the former case and kEmptyCache in the latter.
struct GivenBack {
  uint32_t op = 0;
  uint32_t event = 0;
  // Reserved then, and what was asked for, as in LimitBounds; 0: not known.
  uint64_t fraction_bytes = 0;
  uint64_t device_bytes = 0;
};

struct Program {
  PodVector<Op> ops;
  uint32_t block_count = 0;
  uint32_t stream_count = 1;
  std::vector<uint64_t>
      stream_handles;  // by StreamId; allocators that order streams order them by handle
  std::vector<DriverCall> recorded_calls;
  // What was there before the first event, by address. The blocks are numbered 0, 1, ...; the first
  // initial_ops ops request them anew, for allocators that can't take over where they were.
  std::vector<InitialSegment> initial_segments;
  std::vector<InitialBlock> initial_blocks;
  uint32_t initial_ops = 0;
  bool knows_layout = false;  // every initial block lies in a segment, with its size
  // Private pools whose segments are not expandable though the recorded setting is: those of a
  // MemPool with an allocator of its own, and all of PyTorch before 2.9.
  std::vector<trace::PoolId> native_pools;
  int64_t duration_ns = 0;
  uint64_t largest_reserved_bytes = 0;
  LimitBounds limit_bounds;
  std::vector<GivenBack> given_back;
};

// Linear in the events, but for a search among the initial segments. `baseline`: what
// find_baseline() found, where that was asked for already.
[[nodiscard]] Program make_program(const trace::Trace& trace, const trace::DeviceTrace& device,
                                   Baseline baseline);
[[nodiscard]] Program make_program(const trace::Trace& trace, const trace::DeviceTrace& device);

}  // namespace vram::replay
