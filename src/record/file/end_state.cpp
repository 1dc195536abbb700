#include "record/file/end_state.hpp"

namespace vram::record {

using trace::BlockState;

void EndState::add(const Record& record, const LiveMemory& live, trace::StreamId stream) {
  if (record.op != Op::kHeldSegment) return add_part(record, live);
  const Record* const mapped = live.segment_at(record);
  segments_.push_back({.address = record.address,
                       .size_bytes = record.size_bytes,
                       .first_block = blocks_.size(),
                       .stream = stream,
                       .is_expandable = mapped != nullptr && mapped->op != Op::kSegmentAlloc});
}

// How many bytes were asked for is what the events said.
void EndState::add_part(const Record& record, const LiveMemory& live) {
  if (segments_.empty()) return;
  trace::Segment& segment = segments_.back();
  trace::Block block{.address = record.address,
                     .size_bytes = record.size_bytes,
                     .requested_bytes = record.size_bytes};
  if (record.op != Op::kHeldFree) {
    const LiveMemory::Block* const lives = live.find(record);
    if (lives != nullptr) block.requested_bytes = lives->alloc.size_bytes;
    segment.claimed_active_bytes += block.size_bytes;
    segment.claimed_requested_bytes += block.requested_bytes;
    block.state = BlockState::kPendingFree;
  }
  if (record.op == Op::kHeldBlock) {
    segment.claimed_allocated_bytes += block.size_bytes;
    block.state = BlockState::kAllocated;
  }
  ++segment.block_count;
  blocks_.push_back(block);
}

}  // namespace vram::record
