// Heap: the block structure of one device, moved from event to event by the recorded addresses. It
// repeats what PyTorch's caching allocator did (cut the low end, split by rule, merge with free
// neighbours of the same segment), but never searches: the address of an allocation says which free
// block was taken. In segments of vram's pool it does as that does: blocks are cut from anywhere.
//
// Contradictions in the recording are counted and settled in favour of the event: a live block in
// the way is evicted, an allocation outside of every known segment is refused and noted. Not
// thread-safe. Allocates when its tables grow and at segment events, and per event in vram's memory
// only.
#pragma once

#include "base/address_map.hpp"
#include "base/pod_vector.hpp"
#include "explain/history/allocator_rules.hpp"
#include "replay/segment_map.hpp"
#include "trace/event.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace vram::explain {

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
  bool may_grow = false;  // alive before the recording, and its unsplit remainder is not known yet
  bool is_of_vram = false;  // of vram's pool, which cuts blocks from anywhere in free memory
};
static_assert(sizeof(HeapBlock) == 32);

class Heap {
 public:
  static constexpr uint32_t kNone = AddressMap::kNone;

  // A range that an allocation touched outside of every known segment.
  using Outside = replay::AddressRange;

  explicit Heap(const AllocatorRules& rules) : rules_(rules) {}

  // Segment events. False (and counted) when the event contradicts what is there.
  bool add_segment(uint64_t address, const SegmentRange& range);
  bool remove_segment(uint64_t address, uint64_t size_bytes);

  // A block that was there before the first event; within a segment in rising order of addresses.
  // size_bytes 0: not known, so what `requested_bytes` rounds to, and what could not have been
  // split off. False when it has no room.
  bool place(uint64_t address, uint64_t requested_bytes, uint64_t size_bytes, uint32_t tenant);

  // A block that was there before the event that says it: anywhere in free memory. size_bytes as in
  // place(). kNone when there is no such place.
  uint32_t settle(uint64_t address, uint64_t requested_bytes, uint64_t size_bytes, uint32_t tenant);

  // Gives the block its size, or kNone when there is no such place. Fast where the recording agrees
  // with the rules.
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
  // Cuts `bytes` off the low end into a block of its own and returns that; `block` keeps the rest.
  uint32_t split_low(uint32_t block, uint64_t bytes);
  // `block` grows downwards over its neighbour `prev`. The higher handle survives, so a range's
  // last one is stable.
  void absorb_prev(uint32_t block);
  // In vram's memory: the block around the address, ...
  [[nodiscard]] uint32_t vrams_around(uint64_t address) const;
  // ... beginning there where it is free.
  uint32_t cut_before(uint64_t address);
  uint32_t take(uint32_t block, uint64_t rounded, uint32_t tenant);
  // In the free end of the range; kNone when it has no room there.
  uint32_t place_at_end(const SegmentRange& range, uint64_t address, uint64_t requested_bytes,
                        uint64_t size_bytes, uint32_t tenant);
  uint32_t merge_with_free_neighbours(uint32_t block);

  // The slow paths, where the recording contradicts what is there (or tells more about what was
  // before).
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
  // Steps that locate() may still take, in all: keeps hostile recordings linear. Honest ones need
  // it for unmapping only, once in thousands of events.
  uint64_t search_budget_ = uint64_t{1} << 25;
};

}  // namespace vram::explain
