// Record: one event of a thread, in its ring until the flusher takes it. A value of 64 bytes
// without pointers: texts, stacks and scopes are numbers of the Stores (stores.hpp).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vram::record {

using TextId = uint32_t;   // 0: the empty text
using StackId = uint32_t;  // 0: none was captured

// The first ones are those of vram_event_kind, in its order (capi/record.cpp).
enum class Op : uint8_t {
  // Of blocks.
  kAlloc,
  kFound,  // was there before the recording began
  // Takes effect immediately, unless other streams use the block.
  kFree,
  kFreeRequested,  // freed, and kFreeCompleted will come
  kFreeCompleted,  // the streams that used a freed block are done
  // Of segments.
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSegmentFound,  // mapped, and there before the recording began
  // Of the device.
  kOom,  // a request of size_bytes failed; address: free bytes of the device
  kSnapshot,
  // An allocator's list of its memory at the end: each segment, then its parts.
  kHeldSegment,
  kHeldBlock,
  kHeldPending,  // freed, but streams use it
  kHeldFree,
  // Of blocks of the pool. The block whose address is in `stream` was remapped; this is one of its
  // parts.
  kPart,
  kUse,  // another stream uses the block, too
  // Of the program.
  kName,        // text names [address, address + size_bytes); scope is the category's text
  kScopeBegin,  // text
  kScopeEnd,    // text
  kStep,        // address is the step's number
  kFigure,      // text is its name, address its value
  // Ends now. text is its name, scope its group's text, size_bytes its bytes, address its duration
  // in ns, stream its trace::MarkKind.
  kMark,
};

// Of figures and marks of no device.
inline constexpr uint16_t kNoDevice = 0xffff;

struct Record {
  uint64_t sequence = 0;  // the order of all records of the process
  int64_t time_ns = 0;    // unix time; in a ring, a count of ticks unless is_time_stated
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t stream = 0;
  StackId stack = 0;
  TextId scope = 0;  // the path of the scopes that are open: "forward/layers.7"
  TextId text = 0;   // of segments and homes: which allocator has them; of blocks: kFoundBlock
  uint16_t device = 0;
  Op op = Op::kAlloc;
  bool is_time_stated = false;
  uint64_t unused = 0;
};
static_assert(sizeof(Record) == 64);

// Ring: the records of one thread on their way to the flusher. One thread puts, one takes, without
// locks; unused memory is never touched.
class Ring {
 public:
  static constexpr size_t kRecords = size_t{1} << 14;
  static constexpr size_t kNotifyEvery = 256;

  Ring() {}  // NOLINT(modernize-use-equals-default): which would let its memory be zeroed
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // The owner: a place for the next record, nullptr while the ring is full; then publish() it.
  [[nodiscard]] Record* claim() {
    const size_t put = put_.load(std::memory_order_relaxed);
    if (put - seen_taken_ >= kRecords) {
      seen_taken_ = taken_.load(std::memory_order_acquire);
      if (put - seen_taken_ >= kRecords) return nullptr;
    }
    return &places_[put % kRecords].record;
  }
  // The cache line of a place was last read by the flusher: the next one is fetched early.
  // Returns true if more than half of the places are used; only every kNotifyEvery records, since
  // the caller then wakes the flusher.
  [[nodiscard]] bool publish() {
    const size_t put = put_.load(std::memory_order_relaxed) + 1;
    put_.store(put, std::memory_order_release);
    __builtin_prefetch(&places_[(put + 1) % kRecords], 1);
    if (put - seen_taken_ <= kRecords / 2 || put % kNotifyEvery != 0) return false;
    seen_taken_ = taken_.load(std::memory_order_acquire);
    return put - seen_taken_ > kRecords / 2;
  }

  // For the flusher: returns the oldest record, or nullptr; then call drop().
  [[nodiscard]] const Record* front() {
    const size_t taken = taken_.load(std::memory_order_relaxed);
    if (taken == seen_put_) {
      seen_put_ = put_.load(std::memory_order_acquire);
      if (taken == seen_put_) return nullptr;
    }
    return &places_[taken % kRecords].record;
  }
  void drop() {
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  alignas(64) std::atomic<size_t> put_{0};
  size_t seen_taken_ = 0;  // the owner's
  alignas(64) std::atomic<size_t> taken_{0};
  size_t seen_put_ = 0;  // the flusher's
  // Not initialized: a record is written before it is read, and pages that no record has touched
  // take no memory.
  struct Place {
    Place() {}  // NOLINT(modernize-use-equals-default): which would initialize the record
    union {
      Record record;
    };
  };
  alignas(64) std::array<Place, kRecords> places_;
};

}  // namespace vram::record
