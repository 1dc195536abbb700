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
  // of vram: of the whole and of what it adds there
  kVram,
  kVramVersion,
  kVramFigure,
  kValue,
  kVramMark,
  kMarkGroup,
  kMarkKindKey,
  kDurationNs,
  // ... of an entry, and with each time
  kVramCategory,
  kNanoseconds,
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

// What vram adds to the snapshots that it writes, besides kVramCategory (a context's category,
// where kCategory is for viewers) and kNanoseconds (a time's, beyond its microseconds):
// dictionaries of texts in the dictionary kVram, whose keys begin with kVramItem and are therefore
// no keywords. Those of devices have them as keys: "gpu 0", "host 0".
inline constexpr std::string_view kVramItem = ".";
inline constexpr std::string_view kVramAbout = "about";
inline constexpr std::string_view kVramNotes = "notes";  // how often, by text
inline constexpr std::string_view kVramFigures = "figures";
inline constexpr std::string_view kVramMarks = "marks";
inline constexpr std::string_view kVramOrigin = "origin";  // kVramFormat, kVramTruncated
inline constexpr std::string_view kVramFormat = "format";
inline constexpr std::string_view kVramTruncated = "truncated_at_byte";
inline constexpr std::string_view kVramOverflowed = "ring_overflowed";  // devices
// Devices whose segments are not recorded, but what the replay of their events ended with.
inline constexpr std::string_view kVramReplayedEnds = "replayed_ends";
// Devices of the host that are in the lists of GPUs, since there are no GPUs.
inline constexpr std::string_view kVramAsGpus = "as_gpus";
// Readers take as many lists of one value.
inline constexpr uint32_t kMaxSnapshotDevices = 4096;

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
