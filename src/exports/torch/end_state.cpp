#include "exports/torch/end_state.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace vram::exports {
namespace {

using explain::History;
using explain::Lifetime;
using explain::SegmentMap;
using trace::Block;
using trace::BlockState;
using trace::Event;
using trace::EventKind;
using trace::Segment;

// Appends blocks of one segment, by rising address, with free ones between them.
class Filler {
 public:
  Filler(EndState& state, Segment segment)
      : state_(state), segment_(segment), next_(segment.address) {
    segment_.first_block = state_.blocks.size();
  }

  void add(const Block& block) {
    if (block.address > next_) add_free(block.address);
    state_.blocks.push_back(block);
    next_ = block.address + block.size_bytes;
  }
  void finish() {
    const uint64_t end = segment_.address + segment_.size_bytes;
    if (next_ < end) add_free(end);
    segment_.block_count = static_cast<uint32_t>(state_.blocks.size() - segment_.first_block);
    state_.segments.push_back(segment_);
  }

 private:
  void add_free(uint64_t end) {
    state_.blocks.push_back({.address = next_, .size_bytes = end - next_});
    next_ = end;
  }

  EndState& state_;
  Segment segment_;
  uint64_t next_;
};

SegmentMap segments_after(std::span<const Event> events, const History& history) {
  SegmentMap segments = history.initial_segments;
  auto ignored = history.ignored_segment_events.begin();
  for (size_t i = 0; i < events.size(); ++i) {
    if (ignored != history.ignored_segment_events.end() && *ignored == i)
      ++ignored;
    else
      segments.apply(events[i]);
  }
  return segments;
}

// The stacks of the events that gave the segments.
std::unordered_map<uint64_t, trace::StackId> segment_stacks(std::span<const Event> events) {
  std::unordered_map<uint64_t, trace::StackId> stacks;
  for (const Event& event : events) {
    if (event.stack != 0 &&
        (event.kind == EventKind::kSegmentAlloc || event.kind == EventKind::kSegmentMap))
      stacks[event.address] = event.stack;
  }
  return stacks;
}

std::vector<Block> live_blocks(const History& history) {
  std::vector<Block> blocks;
  for (const Lifetime& life : history.lifetimes) {
    if (life.free_completed_event != explain::kNever) continue;
    const bool is_pending = life.free_requested_event != explain::kNever;
    blocks.push_back({.address = life.address,
                      .size_bytes = life.block_bytes,
                      .requested_bytes = life.requested_bytes,
                      .stack = life.stack,
                      .state = is_pending ? BlockState::kPendingFree : BlockState::kAllocated});
  }
  std::ranges::sort(blocks, {}, &Block::address);
  return blocks;
}

void claim(Segment& segment, const Block& block) {
  segment.claimed_active_bytes += block.size_bytes;
  segment.claimed_requested_bytes += block.requested_bytes;
  if (block.state == BlockState::kAllocated) segment.claimed_allocated_bytes += block.size_bytes;
}

}  // namespace

bool has_recorded_end(const trace::Trace& trace, const trace::DeviceTrace& device) {
  return device.has_end_state && !trace.origin.truncated_at_byte;
}

EndState recorded_end(const trace::DeviceTrace& device) {
  EndState state;
  for (const Segment& segment : device.segments) {
    Filler filler(state, segment);
    for (uint32_t i = 0; i < segment.block_count; ++i)
      filler.add(device.blocks[segment.first_block + i]);
    filler.finish();
  }
  return state;
}

EndState replayed_end(const trace::Trace& trace, const trace::DeviceTrace& device,
                      const History& history) {
  EndState state;
  const std::span<const Event> events = trace.events_of(device);
  const std::vector<Block> blocks = live_blocks(history);
  const auto stacks = segment_stacks(events);
  auto block = blocks.begin();
  const SegmentMap segments = segments_after(events, history);
  for (const auto& [address, range] : segments.ranges()) {
    const auto stack = stacks.find(address);
    Segment segment{.address = address,
                    .size_bytes = range.size_bytes,
                    .stack = stack == stacks.end() ? 0 : stack->second,
                    .stream = range.stream,
                    .pool = range.pool,
                    .is_small = range.is_small,
                    .is_expandable = range.is_expandable};
    while (block != blocks.end() && block->address < address) ++block;
    const auto first = block;
    for (; block != blocks.end() && block->address - address < range.size_bytes; ++block)
      claim(segment, *block);
    Filler filler(state, segment);
    for (auto own = first; own != block; ++own) filler.add(*own);
    filler.finish();
  }
  return state;
}

}  // namespace vram::exports
