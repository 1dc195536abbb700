// Record: one event of a thread, in its ring until the flusher takes it. A value of 64 bytes
// without pointers: texts, stacks and scopes are numbers of the Stores (stores.hpp).
#pragma once

#include <cstdint>

namespace vram::record {

using TextId = uint32_t;   // 0: the empty text
using StackId = uint32_t;  // 0: none was captured

enum class Op : uint8_t {
  // Of blocks.
  kAlloc,
  kFound,  // was there before the recording began
  // The block whose address is in `stream` was remapped; this is one of its parts in the pool.
  kPart,
  // Takes effect immediately, unless other streams use the block.
  kFree,
  kFreeCompleted,  // the streams that used a freed block are done
  kFreeRequested,  // freed, and kFreeCompleted will come
  kUse,            // another stream uses the block, too
  // Of segments.
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSegmentFound,  // mapped, and there before the recording began
  // An allocator's list of its memory at the end: each segment, then its parts.
  kHeldSegment,
  kHeldBlock,
  kHeldPending,  // freed, but streams use it
  kHeldFree,
  // Of the device.
  kOom,  // a request of size_bytes failed; address: free bytes of the device
  kSnapshot,
  // Of the program.
  kName,        // text names [address, address + size_bytes); scope is the category's text
  kScopeBegin,  // text
  kScopeEnd,    // text
  kStep,        // address is the step's number
};

struct Record {
  uint64_t sequence = 0;  // the order of all records of the process
  int64_t time_ns = 0;    // unix time
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t stream = 0;
  StackId stack = 0;
  TextId scope = 0;  // the path of the scopes that are open: "forward/layers.7"
  TextId text = 0;   // of segments and homes: which allocator has them; of blocks: kFoundBlock
  uint16_t device = 0;
  Op op = Op::kAlloc;
  uint8_t unused = 0;
  uint64_t unused_too = 0;
};
static_assert(sizeof(Record) == 64);

}  // namespace vram::record
