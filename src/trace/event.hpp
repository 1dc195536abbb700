// The vocabulary of a trace: plain structs, no behaviour. An Event says what happened to the memory
// of one device, in the order the allocator did it; texts, stacks, streams and pools are small ids
// into the trace's Tables (tables.hpp), where id 0 always means "none", "default" or "not
// recorded".
#pragma once

#include <cstdint>
#include <string_view>

namespace vram::trace {

using StringId = uint32_t;
using FrameId = uint32_t;
using StackId = uint32_t;
using ContextId = uint32_t;
using StreamId = uint16_t;  // 0 is the default stream
using PoolId = uint16_t;    // 0 is the default pool

inline constexpr PoolId kUnknownPool = 0xffff;

enum class EventKind : uint8_t {
  kAlloc = 1,  // address, size_bytes = requested bytes
  kFreeRequested =
      2,  // the last reference was dropped: the block is no longer allocated, but still active
  kFreeCompleted =
      3,              // no stream uses it any more; alone (no request before it) it is a whole free
  kSegmentAlloc = 4,  // the device gave a segment (cudaMalloc)
  kSegmentFree = 5,   // ... and got it back (cudaFree)
  kSegmentMap = 6,    // expandable segments: pages mapped at [address, address + size_bytes)
  kSegmentUnmap = 7,
  kSnapshot = 8,  // marker: the state was dumped here
  kOom = 9,  // size_bytes failed for good; address holds the bytes the driver called free on the
             // device
  kAnnotate = 10,  // the program named [address, address + size_bytes)
  kOther = 11,     // an action this version does not know; its name is the context's user_metadata
};

[[nodiscard]] constexpr bool is_segment_event(EventKind kind) {
  return kind >= EventKind::kSegmentAlloc && kind <= EventKind::kSegmentUnmap;
}

// "alloc", "free_requested", ...: PyTorch's names, used in CSV and JSON too.
[[nodiscard]] std::string_view to_string(EventKind kind);

struct Event {
  int64_t time_ns =
      0;  // unix time; 0 where the recording has no clock. Index order is the truth, not time.
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  StackId stack = 0;
  ContextId context = 0;
  StreamId stream = 0;
  PoolId pool = 0;  // kUnknownPool where the recording does not say and nothing could be deduced
  EventKind kind = EventKind::kOther;
  uint8_t unused[3] = {};

  friend bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 40);

// One level of a stack. `line` 0 means unknown. The fx fields name the graph node of code
// torch.compile generated.
struct Frame {
  StringId function = 0;
  StringId file = 0;
  uint32_t line = 0;
  StringId fx_node = 0;   // "name (op target)"
  StringId fx_trace = 0;  // the user's own line behind it

  friend bool operator==(const Frame&, const Frame&) = default;
};

// Segment events of vram's own pool have this category in their context: its rules are not those of
// another allocator that may serve on the same device. The setting `allocator` names it, too.
inline constexpr std::string_view kVramPool = "vram";
inline constexpr std::string_view kAllocatorSetting = "allocator";

// Alloc events of blocks that were there before the recording, or this file of it, began have this
// category in their context. They lie anywhere, and may have kept more than they round to.
inline constexpr std::string_view kFoundBlock = "found";

// What the program said about an event, beyond its stack.
struct Context {
  StringId compile_id = 0;     // "0/1"; "N/A" is stored as 0
  StringId user_metadata = 0;  // torch's user_metadata
  StringId category = 0;       // of a name: "parameter"; kVramPool; kFoundBlock
  StackId forward_stack = 0;   // the forward operation that created the autograd node (text frames)

  friend bool operator==(const Context&, const Context&) = default;
};

enum class BlockState : uint8_t { kInactive = 0, kAllocated = 1, kPendingFree = 2 };

// Device memory at the end of the recording: a segment and, in address order, its blocks.
struct Segment {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t first_block = 0;  // index into DeviceTrace::blocks
  uint32_t block_count = 0;
  StackId stack = 0;
  StreamId stream = 0;
  PoolId pool = 0;
  bool is_small = false;  // torch's small pool (requests up to 1 MiB)
  bool is_expandable = false;
  uint8_t unused[2] = {};
  // What the producer itself summed up; compared with the blocks.
  uint64_t claimed_allocated_bytes = 0;
  uint64_t claimed_active_bytes = 0;
  uint64_t claimed_requested_bytes = 0;

  friend bool operator==(const Segment&, const Segment&) = default;
};

struct Block {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t requested_bytes =
      0;  // equals size_bytes where the recording does not say; stale for inactive blocks
  StackId stack = 0;
  BlockState state = BlockState::kInactive;
  uint8_t unused[3] = {};

  friend bool operator==(const Block&, const Block&) = default;
};

// A named region's beginning or end, on the host's clock. Nesting is rebuilt by whoever needs it;
// ends may be missing.
struct Annotation {
  int64_t time_ns = 0;
  StringId name = 0;
  uint32_t device = 0;
  bool is_begin = true;
  uint8_t unused[3] = {};

  friend bool operator==(const Annotation&, const Annotation&) = default;
};

}  // namespace vram::trace
