#include "explain/history/verdict.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "trace/lost_events.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::explain {
namespace {

using trace::Block;
using trace::BlockState;
using trace::Segment;

// One event, as a ring of one entry keeps it, would agree with any end state.
constexpr uint64_t kMinCheckedEvents = 2;

std::string_view to_string(BlockState state) {
  switch (state) {
    case BlockState::kAllocated:
      return "allocated";
    case BlockState::kPendingFree:
      return "pending";
    case BlockState::kInactive:
      break;
  }
  return "free";
}

// Counts what differs and keeps the first difference in words.
class Comparison {
 public:
  template <typename... Args>
  void differ(fmt::format_string<Args...> format, Args&&... args) {
    if (count_++ == 0) first_ = trf(format, std::forward<Args>(args)...);
  }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  uint64_t count_ = 0;
  std::string first_;
};

void check_sums(const trace::DeviceTrace& device, const Segment& segment, Comparison& result) {
  uint64_t size = 0;
  uint64_t allocated = 0;
  uint64_t active = 0;
  uint64_t requested = 0;
  for (uint32_t k = 0; k < segment.block_count; ++k) {
    const Block& block = device.blocks[segment.first_block + k];
    size += block.size_bytes;
    if (block.state == BlockState::kInactive) continue;
    active += block.size_bytes;
    requested += block.requested_bytes;
    if (block.state == BlockState::kAllocated) allocated += block.size_bytes;
  }
  if (size != segment.size_bytes) {
    result.differ("segment {:#x} has {} bytes, its blocks {}", segment.address, segment.size_bytes,
                  size);
  }
  if (allocated != segment.claimed_allocated_bytes || active != segment.claimed_active_bytes) {
    result.differ(
        "segment {:#x} claims {} bytes allocated and {} active, its blocks sum to {} and {}",
        segment.address, segment.claimed_allocated_bytes, segment.claimed_active_bytes, allocated,
        active);
  }
  // Producers before PyTorch 2.1 state no requested sizes.
  if (segment.claimed_requested_bytes != 0 && requested != segment.claimed_requested_bytes) {
    result.differ("segment {:#x} claims {} bytes requested, its blocks sum to {}", segment.address,
                  segment.claimed_requested_bytes, requested);
  }
}

void check_block(const Heap& heap, std::span<const Lifetime> lifetimes, const Block& block,
                 Comparison& result) {
  const uint32_t found = heap.find(block.address);
  if (found == Heap::kNone) {
    result.differ("the replay has no block at {:#x} ({} bytes, {})", block.address,
                  block.size_bytes, to_string(block.state));
    return;
  }
  const HeapBlock& replayed = heap.block(found);
  if (replayed.state != block.state || replayed.size_bytes != block.size_bytes) {
    result.differ("block {:#x} is {} bytes, {} at the end; replayed, it is {} bytes, {}",
                  block.address, block.size_bytes, to_string(block.state), replayed.size_bytes,
                  to_string(replayed.state));
    return;
  }
  // Sizes of free blocks are stale, and some producers state block sizes for requested ones.
  if (block.state == BlockState::kInactive || block.requested_bytes == block.size_bytes) return;
  const uint64_t requested = lifetimes[replayed.tenant].requested_bytes;
  if (requested != block.requested_bytes) {
    result.differ("block {:#x} was asked for with {} bytes at the end; replayed, with {}",
                  block.address, block.requested_bytes, requested);
  }
}

void check_segment(const trace::DeviceTrace& device, const Segment& segment, const Heap& heap,
                   std::span<const Lifetime> lifetimes, Comparison& result) {
  const auto range = heap.segments().ranges().find(segment.address);
  if (range == heap.segments().ranges().end() || range->second.size_bytes != segment.size_bytes) {
    result.differ("the replay has no segment of {} bytes at {:#x}", segment.size_bytes,
                  segment.address);
  }
  for (uint32_t k = 0; k < segment.block_count; ++k) {
    check_block(heap, lifetimes, device.blocks[segment.first_block + k], result);
  }
}

Comparison compare(const trace::DeviceTrace& device, const Heap& heap,
                   std::span<const Lifetime> lifetimes) {
  Comparison result;
  for (const Segment& segment : device.segments) {
    check_sums(device, segment, result);
    check_segment(device, segment, heap, lifetimes, result);
  }
  if (heap.segments().ranges().size() != device.segments.size()) {
    result.differ("{} segments at the end, {} replayed", device.segments.size(),
                  heap.segments().ranges().size());
  }
  if (heap.block_count() != device.blocks.size()) {
    result.differ("{} blocks at the end, {} replayed", device.blocks.size(), heap.block_count());
  }
  return result;
}

// vram's recorder begins with what is there and says each thing when it happens.
bool is_of_vram(const trace::Trace& trace) {
  return std::ranges::any_of(trace.about, [](const trace::Setting& about) {
    return about.key == "recorder" && about.value.starts_with("vram ");
  });
}

Confidence confidence_of(const trace::Trace& trace, const trace::DeviceTrace& device,
                         bool contradicts) {
  if (trace.origin.truncated_at_byte) return Confidence::kTruncated;
  if (device.ring_overflowed) return Confidence::kOverflow;
  if (!device.has_end_state) {
    const bool is_whole = is_of_vram(trace) && trace::lost_events(trace) == 0;
    return is_whole && !contradicts ? Confidence::kConsistent : Confidence::kUnchecked;
  }
  if (contradicts) return Confidence::kContradiction;
  return device.event_count < kMinCheckedEvents ? Confidence::kUnchecked : Confidence::kExact;
}

// What the events were held against, and how it came out.
std::string detail_of(const trace::DeviceTrace& device, bool is_checkable, const Comparison& end) {
  if (!is_checkable) {
    return device.has_end_state ? tr("the end state lies after the last event that was kept")
                                : tr("no end state in the recording");
  }
  std::string detail = counted(device.segments.size(), "segment") + tr(" and ") +
                       counted(device.blocks.size(), "block");
  if (end.count() == 0 && device.event_count < kMinCheckedEvents) {
    return detail + (device.event_count == 0
                         ? tr(" at the end, and no event that led there")
                         : tr(" at the end, and only one event that led there"));
  }
  return detail +
         trf(" compared with the end state, {}",
             end.count() == 0 ? tr("all equal") : format_count(end.count()) + tr(" differences"));
}

std::string trouble_of(uint64_t events) {
  const std::string count = counted(events, "event");
  return events == 1 ? trf("; {} does not fit the blocks and segments that were there", count)
                     : trf("; {} do not fit the blocks and segments that were there", count);
}

}  // namespace

Verdict judge(const trace::Trace& trace, const trace::DeviceTrace& device, const Baseline& baseline,
              const Heap& heap, std::span<const Lifetime> lifetimes, const ReplayTrouble& trouble) {
  const bool is_checkable = replay::has_checkable_end_state(trace, device);
  const Comparison end = is_checkable ? compare(device, heap, lifetimes) : Comparison{};
  Verdict verdict;
  verdict.mismatches = end.count() + baseline.contradictions + trouble.contradictions;
  verdict.confidence = confidence_of(trace, device, verdict.mismatches > 0);
  verdict.assumed_segment_bytes = baseline.assumed_segment_bytes;
  verdict.detail = verdict.confidence == Confidence::kConsistent
                       ? counted(device.event_count, "event")
                       : detail_of(device, is_checkable, end);
  if (const uint64_t lost = trace::lost_events(trace); lost > 0)
    verdict.detail += trf("; {} events were lost", format_count(lost));
  if (trouble.contradictions > 0) verdict.detail += trouble_of(trouble.contradictions);
  const std::string& first = !trouble.first.empty()                  ? trouble.first
                             : !baseline.first_contradiction.empty() ? baseline.first_contradiction
                                                                     : end.first();
  if (!first.empty()) verdict.detail += tr("; first: ") + first;
  if (baseline.assumed_segment_bytes > 0) {
    verdict.detail +=
        trf("; {} of segments assumed, for the recording does not name them: reserved bytes are a "
            "lower "
            "bound",
            format_bytes(baseline.assumed_segment_bytes));
  }
  return verdict;
}

}  // namespace vram::explain
