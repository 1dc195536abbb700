// Heap: the block structure of one device, updated event by event from the recorded addresses. It
// repeats what PyTorch's caching allocator did (take the low end, split by rule, merge with free
// neighbours of the same segment) but never searches: an allocation's address identifies the free
// block. In segments of vram's pool, as there, blocks are taken from anywhere.
//
// Contradictions in the recording are counted and resolved in favour of the event: a live block in
// the way is evicted, an allocation outside all known segments is refused and noted. Not
// thread-safe. Allocates when its tables grow and at segment events; for each event only in vram's
// memory.
#pragma once

#include "base/address_map.hpp"
#include "base/pod_vector.hpp"
#include "replay/peers/torch_rules.hpp"
#include "replay/peers/vram_rules.hpp"
#include "replay/segment_map.hpp"
#include "trace/event.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace vram::explain {

// AllocatorRules: determines the size of recorded blocks: PyTorch's rounding and splitting
// (replay/peers/torch_rules.hpp) with the recorded settings, or those of vram's pool, by segment,
// since a process may use both.

using replay::kSmallRequestBytes;
using replay::kSmallSegmentBytes;

class AllocatorRules {
 public:
  AllocatorRules() : AllocatorRules(replay::TorchSettings{}) {}
  // never_splits: for torch's pinned-memory allocator, which uses whole segments.
  explicit AllocatorRules(replay::TorchSettings settings, bool never_splits = false)
      : torch_(segment_by_segment(settings)), never_splits_(never_splits) {}

  // is_of_vram: in a segment of vram's pool.
  [[nodiscard]] uint64_t round(uint64_t requested_bytes, bool is_of_vram = false) const {
    if (is_of_vram) return replay::round_as_vram(requested_bytes);
    return never_rounds_ ? requested_bytes : torch_.round(requested_bytes);
  }
  // Is the segment whose event has this context of vram's pool?
  [[nodiscard]] bool is_of_vram(trace::ContextId context) const {
    return context < contexts_of_vram_.size() && contexts_of_vram_[context];
  }
  // Whether `remaining` is split off when a block of `rounded` bytes is taken from the low end of a
  // free one.
  [[nodiscard]] bool splits(uint64_t rounded, uint64_t remaining, bool small_or_expandable) const {
    return !never_splits_ && torch_.splits(rounded, remaining, small_or_expandable);
  }
  [[nodiscard]] uint64_t max_split_bytes() const { return torch_.settings().max_split_bytes; }
  // What expandable segments map and unmap at a time.
  [[nodiscard]] uint64_t granule_bytes(bool is_small) const {
    return torch_.granule_bytes(is_small);
  }

  // For trace::kUnknownAllocator.
  void set_never_rounds() { never_rounds_ = true; }
  void set_contexts_of_vram(std::vector<bool> contexts) { contexts_of_vram_ = std::move(contexts); }

 private:
  static replay::TorchSettings segment_by_segment(replay::TorchSettings settings) {
    settings.expandable_segments = false;
    return settings;
  }

  replay::TorchRules torch_;
  bool never_splits_;
  bool never_rounds_ = false;
  std::vector<bool> contexts_of_vram_;  // by ContextId; empty if there is none
};

// Those of a device; pinned memory has none of the settings.
[[nodiscard]] AllocatorRules rules_of(const trace::Trace& trace, trace::DeviceKind kind);

using replay::SegmentMap;
using replay::SegmentRange;

struct HeapBlock {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint32_t prev = AddressMap::kNone;  // neighbours by address, within the segment
  uint32_t next = AddressMap::kNone;
  uint32_t tenant = AddressMap::kNone;  // the caller's number for who lives here
  trace::BlockState state = trace::BlockState::kInactive;
  bool is_small = false;  // small pool or expandable: remainders from 512 bytes are split off
  // Alive before the recording, with an unknown unsplit remainder.
  bool may_grow = false;
  // Of vram's pool, which takes blocks from anywhere in free memory.
  bool is_of_vram = false;
};
static_assert(sizeof(HeapBlock) == 32);

class Heap {
 public:
  static constexpr uint32_t kNone = AddressMap::kNone;

  // A range of an allocation outside all known segments.
  using Outside = replay::AddressRange;

  explicit Heap(const AllocatorRules& rules) : rules_(rules) {}

  // Segment events. Return false (and count) if the event contradicts the heap.
  bool add_segment(uint64_t address, const SegmentRange& range);
  bool remove_segment(uint64_t address, uint64_t size_bytes);

  // Adds a block from before the first event, in order of addresses within a segment. size_bytes 0:
  // unknown: the rounded `requested_bytes` plus what could not be split off. Returns false if the
  // space is not free.
  bool place(uint64_t address, uint64_t requested_bytes, uint64_t size_bytes, uint32_t tenant);

  // Adds a block from before the current event, anywhere in free memory. size_bytes as in place().
  // kNone if the space is not free.
  uint32_t settle(uint64_t address, uint64_t requested_bytes, uint64_t size_bytes, uint32_t tenant);

  // Allocates at the address and returns the block, or kNone if the space is not free. Fast if the
  // recording follows the rules.
  uint32_t allocate(uint64_t address, uint64_t requested_bytes, uint32_t tenant) {
    uint32_t block = by_address_.find(address);
    if (block == kNone && !starts_of_vram_.empty()) block = cut_before(address);
    const bool is_of_vram = block != kNone && blocks_[block].is_of_vram;
    const uint64_t rounded = rules_.round(requested_bytes, is_of_vram);
    if (block == kNone || blocks_[block].state != trace::BlockState::kInactive ||
        blocks_[block].size_bytes < rounded) {
      block = make_room(address, rounded);
      if (block == kNone) return kNone;
    }
    return take(block, rounded, tenant);
  }
  // The block at this address if it is live (allocated or pending), else kNone.
  [[nodiscard]] uint32_t live_block_at(uint64_t address) const {
    const uint32_t block = by_address_.find(address);
    if (block == kNone || blocks_[block].state == trace::BlockState::kInactive) return kNone;
    return block;
  }
  void request_free(uint32_t block) { blocks_[block].state = trace::BlockState::kPendingFree; }
  void complete_free(uint32_t block);

  [[nodiscard]] const HeapBlock& block(uint32_t block) const { return blocks_[block]; }
  // Any block that begins at this address; kNone when none does.
  [[nodiscard]] uint32_t find(uint64_t address) const { return by_address_.find(address); }
  [[nodiscard]] const SegmentMap& segments() const { return segments_; }
  [[nodiscard]] size_t block_count() const { return by_address_.size(); }
  [[nodiscard]] uint64_t contradictions() const { return contradictions_; }
  [[nodiscard]] const std::vector<Outside>& outside() const { return outside_; }

  // Tenants whose block a later event took away, since the last call.
  [[nodiscard]] bool has_evicted() const { return !evicted_.empty(); }
  [[nodiscard]] std::vector<uint32_t>& evicted() { return evicted_; }

 private:
  uint32_t new_block(uint64_t address, uint64_t size_bytes, const HeapBlock& like);
  void index(uint32_t block);
  void unindex(uint32_t block);
  void drop_block(uint32_t block);
  // Splits `bytes` off the low end as a new block and returns it; `block` keeps the rest.
  uint32_t split_low(uint32_t block, uint64_t bytes);
  // `block` grows downwards over its neighbour `prev`. The higher handle survives, so a range's
  // last one is stable.
  void absorb_prev(uint32_t block);
  // In vram's memory: the block around the address, ...
  [[nodiscard]] uint32_t vrams_around(uint64_t address) const;
  // ... beginning at the address, if it is free.
  uint32_t cut_before(uint64_t address);
  uint32_t take(uint32_t block, uint64_t rounded, uint32_t tenant);
  // In the free end of the range; kNone when it has no room there.
  uint32_t place_at_end(const SegmentRange& range, uint64_t address, uint64_t requested_bytes,
                        uint64_t size_bytes, uint32_t tenant);
  uint32_t merge_with_free_neighbours(uint32_t block);

  // The slow paths, for recordings that contradict the heap (or reveal more about the memory before
  // them).
  uint32_t make_room(uint64_t address, uint64_t rounded);
  uint32_t locate(uint64_t address);
  void evict(uint32_t block);
  bool grow_previous(uint32_t block, uint64_t address);
  uint32_t absorb_up_to(uint32_t block, uint64_t end);

  AllocatorRules rules_;
  PodVector<HeapBlock> blocks_;
  PodVector<uint32_t> free_slots_;
  AddressMap by_address_;
  std::map<uint64_t, uint32_t> starts_of_vram_;  // the blocks of vram's pool, in order
  SegmentMap segments_;
  std::vector<uint32_t> evicted_;
  std::vector<Outside> outside_;
  uint64_t contradictions_ = 0;
  // The remaining steps of locate(): keeps hostile recordings linear. Normal ones need it only for
  // unmapping, once in thousands of events.
  uint64_t search_budget_ = uint64_t{1} << 25;
};

}  // namespace vram::explain
