#include "show/live/segments_json.hpp"

#include <span>
#include <utility>

namespace vram::show {
namespace {

// One array for each figure: there may be thousands of blocks.
Json json_segment(const watch::ListedSegment& segment, std::span<const watch::ListedBlock> blocks) {
  Json sizes = Json::array();
  Json requested = Json::array();
  Json states = Json::array();
  for (const watch::ListedBlock& block : blocks) {
    sizes.push_back(block.size_bytes);
    requested.push_back(block.requested_bytes);
    states.push_back(static_cast<uint64_t>(block.state));
  }
  return {{"number", segment.device},
          {"address", segment.address},
          {"size_bytes", segment.size_bytes},
          {"stream", segment.stream},
          {"is_small", (segment.kinds & watch::kSegmentSmall) != 0},
          {"is_expandable", (segment.kinds & watch::kSegmentExpandable) != 0},
          {"is_private", (segment.kinds & watch::kSegmentPrivate) != 0},
          {"sizes", std::move(sizes)},
          {"requested", std::move(requested)},
          {"states", std::move(states)}};
}

}  // namespace

Json json_segments(const watch::SegmentList& list, int64_t taken_unix_ns) {
  Json segments = Json::array();
  std::span<const watch::ListedBlock> rest = list.blocks;
  for (const watch::ListedSegment& segment : list.segments) {
    segments.push_back(json_segment(segment, rest.first(segment.block_count)));
    rest = rest.subspan(segment.block_count);
  }
  return {{"taken_unix_ns", taken_unix_ns},
          {"segment_count", list.totals.segments},
          {"block_count", list.totals.blocks},
          {"reserved_bytes", list.totals.bytes},
          {"segments", std::move(segments)}};
}

}  // namespace vram::show
