#include "replay/segment_map.hpp"

#include <iterator>

namespace vram::replay {

bool SegmentMap::overlaps(uint64_t address, uint64_t size_bytes) const {
  const auto after = ranges_.lower_bound(address);
  if (after != ranges_.end() && after->first < address + size_bytes) return true;
  if (after == ranges_.begin()) return false;
  const auto before = std::prev(after);
  return before->first + before->second.size_bytes > address;
}

bool SegmentMap::add(uint64_t address, const SegmentRange& range) {
  if (range.size_bytes == 0 || !is_plausible(address, range.size_bytes)) return false;
  if (overlaps(address, range.size_bytes)) return false;
  if (!range.is_expandable) return ranges_.emplace(address, range).second;
  const auto after = starting_at(address + range.size_bytes, range.stream);
  auto before = ending_at(address, range.stream);
  if (before == ranges_.end()) {
    before = ranges_.emplace(address, range).first;
  } else {
    before->second.size_bytes += range.size_bytes;
    before->second.last_block = range.last_block;
    before->second.is_small |= range.is_small;
  }
  if (after != ranges_.end()) {
    before->second.size_bytes += after->second.size_bytes;
    before->second.last_block = after->second.last_block;
    before->second.is_small |= after->second.is_small;
    ranges_.erase(after);
  }
  return true;
}

bool SegmentMap::remove(uint64_t address, uint64_t size_bytes) {
  const auto it = containing(address);
  if (it == ranges_.end() || size_bytes == 0) return false;
  const auto [start, range] = *it;
  const uint64_t end = start + range.size_bytes;
  if (size_bytes > end - address) return false;
  const bool is_whole = start == address && size_bytes == range.size_bytes;
  if (!is_whole && !range.is_expandable) return false;
  if (start == address) {
    ranges_.erase(it);
  } else {
    it->second.size_bytes = address - start;
  }
  if (address + size_bytes < end) {
    SegmentRange rest = range;
    rest.size_bytes = end - address - size_bytes;
    ranges_.emplace(address + size_bytes, rest);
  }
  return true;
}

bool SegmentMap::apply(const trace::Event& event) {
  switch (event.kind) {
    case trace::EventKind::kSegmentAlloc:
    case trace::EventKind::kSegmentMap:
      return add(event.address, range_of(event));
    case trace::EventKind::kSegmentFree:
    case trace::EventKind::kSegmentUnmap:
      return remove(event.address, event.size_bytes);
    default:
      return true;
  }
}

bool SegmentMap::undo(const trace::Event& event) {
  switch (event.kind) {
    case trace::EventKind::kSegmentAlloc:
    case trace::EventKind::kSegmentMap:
      return remove(event.address, event.size_bytes);
    case trace::EventKind::kSegmentFree:
    case trace::EventKind::kSegmentUnmap:
      return add(event.address, range_of(event));
    default:
      return true;
  }
}

SegmentMap::Ranges::iterator SegmentMap::containing(uint64_t address) {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return ranges_.end();
  --it;
  return address - it->first < it->second.size_bytes ? it : ranges_.end();
}

SegmentMap::Ranges::const_iterator SegmentMap::containing(uint64_t address) const {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return ranges_.end();
  --it;
  return address - it->first < it->second.size_bytes ? it : ranges_.end();
}

SegmentMap::Ranges::iterator SegmentMap::ending_at(uint64_t address, trace::StreamId stream) {
  if (address == 0) return ranges_.end();
  const auto it = containing(address - 1);
  const bool joins = it != ranges_.end() && it->first + it->second.size_bytes == address &&
                     it->second.is_expandable && it->second.stream == stream;
  return joins ? it : ranges_.end();
}

SegmentMap::Ranges::iterator SegmentMap::starting_at(uint64_t address, trace::StreamId stream) {
  const auto it = ranges_.find(address);
  const bool joins = it != ranges_.end() && it->second.is_expandable && it->second.stream == stream;
  return joins ? it : ranges_.end();
}

uint64_t SegmentMap::total_bytes() const {
  uint64_t total = 0;
  for (const auto& [address, range] : ranges_) total += range.size_bytes;
  return total;
}

SegmentRange range_of(const trace::Event& event) {
  const bool is_expandable =
      event.kind == trace::EventKind::kSegmentMap || event.kind == trace::EventKind::kSegmentUnmap;
  return {.size_bytes = event.size_bytes,
          .stream = event.stream,
          .pool = event.pool,
          .is_small = event.size_bytes <= kSmallSegmentBytes,
          .is_expandable = is_expandable,
          .context = event.context};
}

SegmentRange range_of(const trace::Segment& segment) {
  return {.size_bytes = segment.size_bytes,
          .stream = segment.stream,
          .pool = segment.pool,
          .is_small = segment.is_small,
          .is_expandable = segment.is_expandable};
}

}  // namespace vram::replay
