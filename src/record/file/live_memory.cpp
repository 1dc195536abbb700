#include "record/file/live_memory.hpp"

#include <algorithm>

namespace vram::record {
namespace {

LiveMemory::Key key_of(const Record& record) { return {record.device, record.address}; }

Record part_of(const Record& segment, uint64_t begin, uint64_t end) {
  Record part = segment;
  part.address = begin;
  part.size_bytes = end - begin;
  return part;
}

}  // namespace

const LiveMemory::Block* LiveMemory::find(const Record& record) const {
  const auto found = blocks_.find(key_of(record));
  return found != blocks_.end() ? &found->second : nullptr;
}

LiveMemory::Block* LiveMemory::find(const Record& record) {
  return const_cast<Block*>(std::as_const(*this).find(record));
}

void LiveMemory::add(const Record& alloc, std::vector<Record> homes) {
  Block& block = blocks_[key_of(alloc)];
  block_bytes_ += alloc.size_bytes - block.alloc.size_bytes;
  block = Block{.alloc = alloc, .homes = std::move(homes)};
}

void LiveMemory::remove(const Record& record) {
  const auto found = blocks_.find(key_of(record));
  if (found == blocks_.end()) return;
  block_bytes_ -= found->second.alloc.size_bytes;
  blocks_.erase(found);
}

void LiveMemory::map(const Record& segment) {
  Record& mapped = segments_[key_of(segment)];
  mapped_bytes_ += segment.size_bytes - mapped.size_bytes;
  mapped = segment;
}

void LiveMemory::unmap(const Record& segment) {
  const uint64_t begin = segment.address;
  const uint64_t end = begin + segment.size_bytes;
  auto it = segments_.upper_bound(key_of(segment));
  if (it != segments_.begin()) --it;
  while (it != segments_.end() && it->first < Key{segment.device, end}) {
    const Record old = it->second;
    const uint64_t old_end = old.address + old.size_bytes;
    if (old.device != segment.device || old_end <= begin) {
      ++it;
      continue;
    }
    mapped_bytes_ -= old.size_bytes;
    it = segments_.erase(it);
    if (old.address < begin) map(part_of(old, old.address, begin));
    if (old_end > end) map(part_of(old, end, old_end));
  }
}

const Record* LiveMemory::segment_at(const Record& record) const {
  const auto after = segments_.upper_bound(key_of(record));
  if (after == segments_.begin()) return nullptr;
  const Record& segment = std::prev(after)->second;
  const bool holds =
      segment.device == record.device && record.address - segment.address < segment.size_bytes;
  return holds ? &segment : nullptr;
}

uint64_t LiveMemory::mapped_bytes(const Record& segment) const {
  const auto found = segments_.find(key_of(segment));
  return found != segments_.end() ? found->second.size_bytes : 0;
}

std::vector<Record> LiveMemory::segments() const {
  std::vector<Record> all;
  all.reserve(segments_.size());
  for (const auto& [key, segment] : segments_) all.push_back(segment);
  return all;
}

std::vector<LiveMemory::Block> LiveMemory::blocks() const {
  std::vector<Block> all;
  all.reserve(blocks_.size());
  for (const auto& [key, block] : blocks_) all.push_back(block);
  std::ranges::sort(all, {}, [](const Block& block) { return key_of(block.alloc); });
  return all;
}

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
