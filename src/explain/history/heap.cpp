#include "explain/history/heap.hpp"

#include "replay/peers/torch_options.hpp"
#include "trace/allocators.hpp"

#include <algorithm>
#include <iterator>

namespace vram::explain {

using trace::BlockState;

void Heap::index(uint32_t block) {
  by_address_.set(blocks_[block].address, block);
  if (blocks_[block].is_of_vram) starts_of_vram_[blocks_[block].address] = block;
}

void Heap::unindex(uint32_t block) {
  by_address_.erase(blocks_[block].address);
  if (blocks_[block].is_of_vram) starts_of_vram_.erase(blocks_[block].address);
}

uint32_t Heap::new_block(uint64_t address, uint64_t size_bytes, const HeapBlock& like) {
  uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(blocks_.size());
    blocks_.push_back({});
  } else {
    slot = free_slots_.back();
    free_slots_.truncate(free_slots_.size() - 1);
  }
  blocks_[slot] = HeapBlock{.address = address,
                            .size_bytes = size_bytes,
                            .is_small = like.is_small,
                            .is_of_vram = like.is_of_vram};
  index(slot);
  return slot;
}

void Heap::drop_block(uint32_t block) {
  unindex(block);
  free_slots_.push_back(block);
}

uint32_t Heap::split_low(uint32_t block, uint64_t bytes) {
  const HeapBlock whole = blocks_[block];
  const uint32_t low = new_block(whole.address, bytes, whole);
  blocks_[low].prev = whole.prev;
  blocks_[low].next = block;
  if (whole.prev != kNone) blocks_[whole.prev].next = low;
  HeapBlock& high = blocks_[block];
  high.prev = low;
  high.address += bytes;
  high.size_bytes -= bytes;
  index(block);
  return low;
}

void Heap::absorb_prev(uint32_t block) {
  HeapBlock& high = blocks_[block];
  const uint32_t low = high.prev;
  unindex(block);
  high.address = blocks_[low].address;
  high.size_bytes += blocks_[low].size_bytes;
  high.prev = blocks_[low].prev;
  if (high.prev != kNone) blocks_[high.prev].next = block;
  index(block);
  free_slots_.push_back(low);
}

uint32_t Heap::vrams_around(uint64_t address) const {
  const auto after = starts_of_vram_.upper_bound(address);
  if (after == starts_of_vram_.begin()) return kNone;
  const uint32_t block = std::prev(after)->second;
  return address - blocks_[block].address < blocks_[block].size_bytes ? block : kNone;
}

uint32_t Heap::cut_before(uint64_t address) {
  const uint32_t block = vrams_around(address);
  if (block != kNone && blocks_[block].state == BlockState::kInactive)
    split_low(block, address - blocks_[block].address);
  return block;
}

uint32_t Heap::take(uint32_t block, uint64_t rounded, uint32_t tenant) {
  const uint64_t size = blocks_[block].size_bytes;
  if (size > rounded && rules_.splits(rounded, size - rounded, blocks_[block].is_small)) {
    block = split_low(block, rounded);
  }
  blocks_[block].state = BlockState::kAllocated;
  blocks_[block].tenant = tenant;
  blocks_[block].may_grow = false;
  return block;
}

uint32_t Heap::merge_with_free_neighbours(uint32_t block) {
  const uint32_t prev = blocks_[block].prev;
  if (prev != kNone && blocks_[prev].state == BlockState::kInactive) absorb_prev(block);
  const uint32_t next = blocks_[block].next;
  if (next == kNone || blocks_[next].state != BlockState::kInactive) return block;
  absorb_prev(next);
  return next;
}

void Heap::complete_free(uint32_t block) {
  HeapBlock& freed = blocks_[block];
  freed.state = BlockState::kInactive;
  freed.tenant = kNone;
  freed.may_grow = false;
  merge_with_free_neighbours(block);
}

bool Heap::add_segment(uint64_t address, const SegmentRange& range) {
  const auto& ranges = segments_.ranges();
  const auto before = segments_.ending_at(address, range.stream);
  const auto after = segments_.starting_at(address + range.size_bytes, range.stream);
  const uint32_t low =
      range.is_expandable && before != ranges.end() ? before->second.last_block : kNone;
  const uint32_t high =
      range.is_expandable && after != ranges.end() ? by_address_.find(after->first) : kNone;
  const uint32_t last = high == kNone ? kNone : after->second.last_block;
  if (!segments_.add(address, range)) {
    ++contradictions_;
    return false;
  }
  const HeapBlock like{.is_small = range.is_small || range.is_expandable,
                       .is_of_vram = rules_.is_of_vram(range.context)};
  const uint32_t block = new_block(address, range.size_bytes, like);
  blocks_[block].prev = low;
  blocks_[block].next = high;
  if (low != kNone) blocks_[low].next = block;
  if (high != kNone) blocks_[high].prev = block;
  segments_.containing(address)->second.last_block = last == kNone ? block : last;
  if (range.is_expandable) merge_with_free_neighbours(block);
  return true;
}

bool Heap::remove_segment(uint64_t address, uint64_t size_bytes) {
  const auto range = segments_.containing(address);
  const uint32_t found = range == segments_.ranges().end() ? kNone : locate(address);
  const uint64_t start = found == kNone ? 0 : range->first;
  const uint32_t last = found == kNone ? kNone : range->second.last_block;
  if (found == kNone || !segments_.remove(address, size_bytes)) {
    ++contradictions_;
    return false;
  }
  uint32_t block = found;
  if (blocks_[block].state != BlockState::kInactive) evict(block);
  if (blocks_[block].address < address) split_low(block, address - blocks_[block].address);
  block = absorb_up_to(block, address + size_bytes);
  if (blocks_[block].size_bytes > size_bytes) block = split_low(block, size_bytes);
  const uint32_t left = blocks_[block].prev;
  const uint32_t right = blocks_[block].next;
  drop_block(block);
  if (left != kNone) {
    blocks_[left].next = kNone;
    segments_.ranges()[start].last_block = left;
  }
  if (right != kNone) {
    blocks_[right].prev = kNone;
    segments_.ranges()[address + size_bytes].last_block = last;
  }
  return true;
}

uint32_t Heap::place_at_end(const SegmentRange& range, uint64_t address, uint64_t requested_bytes,
                            uint64_t size_bytes, uint32_t tenant) {
  const bool is_of_vram = rules_.is_of_vram(range.context);
  const uint64_t rounded = rules_.round(requested_bytes, is_of_vram);
  if (is_of_vram && size_bytes == 0) size_bytes = rounded;  // nothing is left over there
  uint32_t block = range.last_block;
  const uint64_t wanted = size_bytes == 0 ? rounded : size_bytes;
  const HeapBlock tail = blocks_[block];
  const bool fits = tail.state == BlockState::kInactive && address >= tail.address &&
                    address - tail.address < tail.size_bytes &&
                    wanted <= tail.size_bytes - (address - tail.address);
  if (!fits) return kNone;
  if (address > tail.address && !grow_previous(block, address)) {
    split_low(block, address - tail.address);
  }
  // Of unknown size: a rest that the rules never split off is its own.
  const uint64_t rest = blocks_[block].size_bytes - wanted;
  const bool keeps_rest = size_bytes == 0 && !rules_.splits(rounded, rest, tail.is_small);
  if (rest > 0 && !keeps_rest) block = split_low(block, wanted);
  blocks_[block].state = BlockState::kAllocated;
  blocks_[block].tenant = tenant;
  blocks_[block].may_grow = size_bytes == 0 && !keeps_rest && !tail.is_small;
  return block;
}

bool Heap::place(uint64_t address, uint64_t requested_bytes, uint64_t size_bytes, uint32_t tenant) {
  const auto range = segments_.containing(address);
  if (range == segments_.ranges().end()) {
    const uint64_t rounded = rules_.round(requested_bytes);
    outside_.push_back({address, size_bytes == 0 ? rounded : size_bytes});
    return false;
  }
  const bool is_placed =
      place_at_end(range->second, address, requested_bytes, size_bytes, tenant) != kNone;
  if (!is_placed) ++contradictions_;
  return is_placed;
}

// They come by rising address, so that none has to be searched for; one that does not is treated as
// an allocation.
uint32_t Heap::settle(uint64_t address, uint64_t requested_bytes, uint64_t size_bytes,
                      uint32_t tenant) {
  const auto range = segments_.containing(address);
  const uint32_t block =
      range == segments_.ranges().end()
          ? kNone
          : place_at_end(range->second, address, requested_bytes, size_bytes, tenant);
  return block != kNone ? block : allocate(address, requested_bytes, tenant);
}

void Heap::evict(uint32_t block) {
  ++contradictions_;
  evicted_.push_back(blocks_[block].tenant);
  blocks_[block].tenant = kNone;
  blocks_[block].state = BlockState::kInactive;
  blocks_[block].may_grow = false;
}

uint32_t Heap::locate(uint64_t address) {
  const auto range = segments_.containing(address);
  if (range == segments_.ranges().end()) return kNone;
  uint32_t block = by_address_.find(address);
  if (block != kNone) return block;
  if (rules_.is_of_vram(range->second.context)) {
    const uint32_t found = vrams_around(address);
    if (found != kNone) return found;
  }
  block = by_address_.find(range->first);
  while (block != kNone && address - blocks_[block].address >= blocks_[block].size_bytes) {
    if (search_budget_ == 0) return kNone;
    --search_budget_;
    block = blocks_[block].next;
  }
  return block;
}

bool Heap::grow_previous(uint32_t block, uint64_t address) {
  const uint32_t prev = blocks_[block].prev;
  const uint64_t bytes = address - blocks_[block].address;
  if (prev == kNone || !blocks_[prev].may_grow || bytes > kSmallRequestBytes) return false;
  unindex(block);
  blocks_[block].address += bytes;
  blocks_[block].size_bytes -= bytes;
  index(block);
  blocks_[prev].size_bytes += bytes;
  blocks_[prev].may_grow = false;
  return true;
}

uint32_t Heap::absorb_up_to(uint32_t block, uint64_t end) {
  while (blocks_[block].address + blocks_[block].size_bytes < end) {
    const uint32_t next = blocks_[block].next;
    if (next == kNone) break;
    if (blocks_[next].state != BlockState::kInactive) evict(next);
    absorb_prev(next);
    block = next;
  }
  return block;
}

uint32_t Heap::make_room(uint64_t address, uint64_t rounded) {
  if (segments_.containing(address) == segments_.ranges().end()) {
    ++contradictions_;
    outside_.push_back({address, rounded});
    return kNone;
  }
  const uint32_t block = locate(address);
  if (block == kNone) {
    ++contradictions_;
    return kNone;
  }
  if (blocks_[block].state != BlockState::kInactive) evict(block);
  if (blocks_[block].address != address && !grow_previous(block, address)) {
    ++contradictions_;
    split_low(block, address - blocks_[block].address);
  }
  if (blocks_[block].size_bytes < rounded) ++contradictions_;
  return absorb_up_to(block, address + rounded);
}

namespace {

std::vector<bool> contexts_of_vram(const trace::Tables& tables) {
  std::vector<bool> contexts(tables.contexts.size());
  bool is_any = false;
  for (trace::ContextId id = 0; id < contexts.size(); ++id) {
    contexts[id] = replay::is_of_vram(tables, id);
    is_any = is_any || contexts[id];
  }
  return is_any ? contexts : std::vector<bool>();
}

}  // namespace

AllocatorRules rules_of(const trace::Trace& trace, trace::DeviceKind kind) {
  const bool is_host = kind == trace::DeviceKind::kHost;
  AllocatorRules rules =
      is_host ? AllocatorRules({}, true) : AllocatorRules(replay::recorded_torch(trace));
  if (!is_host) rules.set_contexts_of_vram(contexts_of_vram(trace.tables));
  if (trace::has_unknown_allocator(trace)) rules.set_never_rounds();
  return rules;
}

}  // namespace vram::explain
