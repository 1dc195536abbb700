#include "trace/import/torch/keywords.hpp"

#include <algorithm>

namespace vram::trace::torch {
namespace {

struct Row {
  uint32_t keyword;
  std::string_view text;
};

constexpr std::array<Row, kKeywordCount> kRows = {{
    {kAction, "action"},
    {kAddr, "addr"},
    {kDeviceFree, "device_free"},
    {kSize, "size"},
    {kStream, "stream"},
    {kTimeUs, "time_us"},
    {kFrames, "frames"},
    {kCppFrames, "cpp_frames"},
    {kCompileContext, "compile_context"},
    {kUserMetadata, "user_metadata"},
    {kPoolIdKey, "pool_id"},
    {kCategory, "category"},
    {kForwardFrames, "forward_frames"},
    {kDevice, "device"},
    {kAddress, "address"},
    {kTotalSize, "total_size"},
    {kAllocatedSize, "allocated_size"},
    {kActiveSize, "active_size"},
    {kRequestedSize, "requested_size"},
    {kSegmentType, "segment_type"},
    {kSegmentPoolId, "segment_pool_id"},
    {kIsExpandable, "is_expandable"},
    {kBlocks, "blocks"},
    {kState, "state"},
    {kHistory, "history"},
    {kRealSize, "real_size"},
    {kName, "name"},
    {kFilename, "filename"},
    {kLine, "line"},
    {kFxNodeOp, "fx_node_op"},
    {kFxNodeName, "fx_node_name"},
    {kFxNodeTarget, "fx_node_target"},
    {kFxNodeInfo, "fx_node_info"},
    {kFxOriginalTrace, "fx_original_trace"},
    {kStage, "stage"},
    {kSegments, "segments"},
    {kDeviceTraces, "device_traces"},
    {kAllocatorSettings, "allocator_settings"},
    {kExternalAnnotations, "external_annotations"},
    {kHostSegments, "host_segments"},
    {kHostTraces, "host_traces"},
    {kCategories, "categories"},
    {kVram, "vram"},
    {kVramVersion, "vram_version"},
    {kVramFigure, "vram_figure"},
    {kValue, "vram_value"},
    {kVramMark, "vram_mark"},
    {kMarkGroup, "mark_group"},
    {kMarkKindKey, "mark_kind"},
    {kDurationNs, "duration_ns"},
    {kVramCategory, "vram_category"},
    {kNanoseconds, "nanoseconds"},
    {kWordAlloc, "alloc"},
    {kWordFree, "free"},
    {kWordFreeRequested, "free_requested"},
    {kWordFreeCompleted, "free_completed"},
    {kWordSegmentAlloc, "segment_alloc"},
    {kWordSegmentFree, "segment_free"},
    {kWordSegmentMap, "segment_map"},
    {kWordSegmentUnmap, "segment_unmap"},
    {kWordSnapshot, "snapshot"},
    {kWordOom, "oom"},
    {kWordAnnotate, "annotate"},
    {kWordUserDefined, "user_defined"},
    {kWordActiveAllocated, "active_allocated"},
    {kWordActivePendingFree, "active_pending_free"},
    {kWordActiveAwaitingFree, "active_awaiting_free"},
    {kWordInactive, "inactive"},
    {kWordSmall, "small"},
    {kWordLarge, "large"},
    {kWordStart, "START"},
    {kWordEnd, "END"},
    {kWordNotAvailable, "N/A"},
    {kWordNoFile, "none"},
}};
constexpr bool in_order() {
  for (uint32_t i = 0; i < kKeywordCount; ++i) {
    if (kRows[i].keyword != i) return false;
  }
  return true;
}
static_assert(in_order(), "a keyword is the number of its row");

constexpr size_t kMaxLength = 20;  // active_awaiting_free, external_annotations

// Keywords of one length, most recordings' texts being of none.
constexpr std::array<std::array<uint8_t, 16>, kMaxLength + 1> kByLength = [] {
  std::array<std::array<uint8_t, 16>, kMaxLength + 1> lists = {};
  std::array<size_t, kMaxLength + 1> counts = {};
  for (auto& list : lists) list.fill(kKeywordCount);
  for (const Row& row : kRows) {
    lists[row.text.size()][counts[row.text.size()]++] = static_cast<uint8_t>(row.keyword);
  }
  return lists;
}();

}  // namespace

std::string_view keyword_text(uint32_t keyword) { return kRows[keyword].text; }

std::optional<uint32_t> find_keyword(std::string_view text) {
  if (text.size() > kMaxLength) return std::nullopt;
  for (const uint8_t keyword : kByLength[text.size()]) {
    if (keyword == kKeywordCount) break;
    if (kRows[keyword].text == text) return keyword;
  }
  return std::nullopt;
}

}  // namespace vram::trace::torch
