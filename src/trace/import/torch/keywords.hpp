// The keywords of PyTorch's snapshots: dictionary keys, actions and states. Texts are numbered with
// the keywords first, so that a key is an index, compared once when its text is read.
#pragma once

#include "trace/event.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::trace::torch {

enum Key : uint8_t {
  // of an entry of device_traces
  kAction,
  kAddr,
  kDeviceFree,
  kSize,
  kStream,
  kTimeUs,
  kFrames,
  kCppFrames,
  kCompileContext,
  kUserMetadata,
  kPoolIdKey,
  kCategory,
  kForwardFrames,
  // of a segment
  kDevice,
  kAddress,
  kTotalSize,
  kAllocatedSize,
  kActiveSize,
  kRequestedSize,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  // of a block, and of its history (up to 2.0)
  kState,
  kHistory,
  kRealSize,
  // of a frame
  kName,
  kFilename,
  kLine,
  kFxNodeOp,
  kFxNodeName,
  kFxNodeTarget,
  kFxNodeInfo,
  kFxOriginalTrace,
  // of an annotation
  kStage,
  // of the whole
  kSegments,
  kDeviceTraces,
  kAllocatorSettings,
  kExternalAnnotations,
  kHostSegments,
  kHostTraces,
  kCategories,
  kKeyCount,
};
static_assert(kKeyCount <= 64, "the keys a dictionary has are bits of one word");

enum Word : uint8_t {
  kWordAlloc = kKeyCount,
  kWordFree,
  kWordFreeRequested,
  kWordFreeCompleted,
  kWordSegmentAlloc,
  kWordSegmentFree,
  kWordSegmentMap,
  kWordSegmentUnmap,
  kWordSnapshot,
  kWordOom,
  kWordAnnotate,
  kWordUserDefined,
  kWordActiveAllocated,
  kWordActivePendingFree,
  kWordActiveAwaitingFree,
  kWordInactive,
  kWordSmall,
  kWordLarge,
  kWordStart,
  kWordEnd,
  kWordNotAvailable,
  kWordNoFile,
  kKeywordCount,
};

[[nodiscard]] std::string_view keyword_text(uint32_t keyword);
[[nodiscard]] std::optional<uint32_t> find_keyword(std::string_view text);

// The event kind of an action; kOther if the word is no action that makes an event.
inline constexpr std::array<EventKind, kKeywordCount> kEventKinds = [] {
  std::array<EventKind, kKeywordCount> kinds = {};
  kinds.fill(EventKind::kOther);
  kinds[kWordAlloc] = EventKind::kAlloc;
  kinds[kWordFreeRequested] = EventKind::kFreeRequested;
  // the viewer's merge of a request and its completion
  kinds[kWordFree] = EventKind::kFreeCompleted;
  kinds[kWordFreeCompleted] = EventKind::kFreeCompleted;
  kinds[kWordSegmentAlloc] = EventKind::kSegmentAlloc;
  kinds[kWordSegmentFree] = EventKind::kSegmentFree;
  kinds[kWordSegmentMap] = EventKind::kSegmentMap;
  kinds[kWordSegmentUnmap] = EventKind::kSegmentUnmap;
  kinds[kWordSnapshot] = EventKind::kSnapshot;
  kinds[kWordOom] = EventKind::kOom;
  kinds[kWordAnnotate] = EventKind::kAnnotate;
  return kinds;
}();

}  // namespace vram::trace::torch
