#include "replay/baseline.hpp"

#include "base/address_map.hpp"
#include "base/pod_vector.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::replay {
namespace {

using trace::Event;
using trace::EventKind;

// What the events say about each address they name, without any block structure.
class AddressScan {
 public:
  AddressScan(std::span<const Event> events, const FoundBlocks& found) : found_(found) {
    for (size_t i = 0; i < events.size(); ++i) see(i, events[i]);
  }

  // kInitialRequested: the free of a block from before was requested, and nothing more happened.
  // kFound: a block from before that was reported, whose free may have been requested.
  enum Fate : uint32_t { kLive, kFound, kRequested, kInitialRequested, kGone };

  // Blocks freed that were never allocated here.
  [[nodiscard]] std::vector<InitialBlock>& freed_before_allocated() { return initial_; }
  [[nodiscard]] uint32_t outcome(uint64_t address) const { return fates_.find(address); }
  [[nodiscard]] bool completes_on_request() const { return requests_ > 0 && completions_ == 0; }
  // Their numbers, rising.
  [[nodiscard]] const std::vector<size_t>& segment_events() const { return segment_events_; }

  // A completion alone was requested before the first event, in recordings that have requests.
  void settle_pending() {
    if (requests_ > 0) return;
    for (InitialBlock& block : initial_) block.is_pending = false;
  }

 private:
  void see(size_t i, const Event& event) {
    if (event.kind == EventKind::kAlloc) {
      if (is_plausible(event.address, event.size_bytes))
        fates_.set(event.address, found_.is_one(event) ? kFound : kLive);
    } else if (event.kind == EventKind::kFreeRequested) {
      ++requests_;
      see_free(event, kRequested);
    } else if (event.kind == EventKind::kFreeCompleted) {
      ++completions_;
      see_free(event, kGone);
    } else if (is_segment_event(event.kind)) {
      segment_events_.push_back(i);
    }
  }
  void see_free(const Event& event, Fate outcome) {
    if (!is_plausible(event.address, event.size_bytes)) return;
    uint32_t& known = fates_.at(event.address);
    if (known == AddressMap::kNone) {
      initial_.push_back({.address = event.address,
                          .requested_bytes = event.size_bytes,
                          .stream = event.stream,
                          .pool = event.pool,
                          .is_pending = outcome == kGone});
      known = outcome == kRequested ? kInitialRequested : outcome;
    } else if (known != kGone && !(known == kFound && outcome == kRequested)) {
      known = outcome;
    }
  }

  const FoundBlocks& found_;
  AddressMap fates_;
  std::vector<InitialBlock> initial_;
  std::vector<size_t> segment_events_;
  uint64_t requests_ = 0;
  uint64_t completions_ = 0;
};

void note(Baseline& baseline, std::string text) {
  if (baseline.contradictions++ == 0) baseline.first_contradiction = std::move(text);
}

void undo_segment_events(const trace::DeviceTrace& device, std::span<const Event> events,
                         std::span<const size_t> segment_events, Baseline& baseline) {
  for (const trace::Segment& segment : device.segments) {
    if (!baseline.segments.add(segment.address, range_of(segment))) {
      note(baseline, trf("segment {:#x} overlaps another one", segment.address));
    }
  }
  for (size_t k = segment_events.size(); k-- > 0;) {
    const Event& event = events[segment_events[k]];
    if (baseline.segments.undo(event)) continue;
    note(baseline,
         trf("event {} ({} of {} bytes at {:#x}) does not lead to the end state's segments",
             segment_events[k], trace::to_string(event.kind), event.size_bytes, event.address));
  }
}

// Without an end state: what is given back and was never taken was there before.
void find_segments_given_back(std::span<const Event> events, std::span<const size_t> segment_events,
                              Baseline& baseline) {
  SegmentMap now;
  for (const size_t i : segment_events) {
    const Event& event = events[i];
    if (!now.apply(event) &&
        (event.kind == EventKind::kSegmentFree || event.kind == EventKind::kSegmentUnmap)) {
      baseline.segments.add(event.address, range_of(event));
    }
  }
}

// Blocks that the end state holds and no event allocated; blocks it holds though they were freed
// contradict.
void add_survivors(const trace::DeviceTrace& device, const AddressScan& scan, Baseline& baseline) {
  for (const trace::Segment& segment : device.segments) {
    for (uint32_t k = 0; k < segment.block_count; ++k) {
      const trace::Block& block = device.blocks[segment.first_block + k];
      if (block.state == trace::BlockState::kInactive) continue;
      const uint32_t outcome = scan.outcome(block.address);
      if (outcome == AddressScan::kGone) {
        note(baseline,
             trf("block {:#x} is live at the end, though the trace freed it", block.address));
      }
      if (outcome == AddressScan::kFound) baseline.found_bytes[block.address] = block.size_bytes;
      if (outcome != AddressMap::kNone) continue;
      if (!is_plausible(block.address, std::max(block.size_bytes, block.requested_bytes))) {
        note(baseline, trf("the end state has a block of {} bytes at {:#x}", block.size_bytes,
                           block.address));
        continue;
      }
      baseline.blocks.push_back({.address = block.address,
                                 .requested_bytes = block.requested_bytes,
                                 .block_bytes = block.size_bytes,
                                 .stack = block.stack,
                                 .stream = segment.stream,
                                 .pool = segment.pool,
                                 .is_pending = block.state == trace::BlockState::kPendingFree});
    }
  }
}

// A block of which only the request to free it is recorded, and which is still pending at the end:
// its size is known.
void complete_sizes(const trace::DeviceTrace& device, const AddressScan& scan,
                    std::vector<InitialBlock>& blocks) {
  AddressMap freed;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (scan.outcome(blocks[i].address) == AddressScan::kInitialRequested) {
      freed.set(blocks[i].address, static_cast<uint32_t>(i));
    }
  }
  if (freed.size() == 0) return;
  for (const trace::Block& block : device.blocks) {
    const uint32_t i = freed.find(block.address);
    if (i == AddressMap::kNone || block.state != trace::BlockState::kPendingFree) continue;
    if (!is_plausible(block.address, block.size_bytes)) continue;
    blocks[i].block_bytes = block.size_bytes;
    blocks[i].stack = block.stack;
  }
}

bool has_pending_block(const trace::DeviceTrace& device) {
  return std::any_of(device.blocks.begin(), device.blocks.end(), [](const trace::Block& block) {
    return block.state == trace::BlockState::kPendingFree;
  });
}

}  // namespace

FoundBlocks::FoundBlocks(const trace::Tables& tables) {
  for (trace::ContextId id = 0; id < tables.contexts.size(); ++id) {
    if (tables.strings[tables.contexts[id].category] != trace::kFoundBlock) continue;
    contexts_.resize(tables.contexts.size());
    contexts_[id] = true;
  }
}

bool has_checkable_end_state(const trace::Trace& trace, const trace::DeviceTrace& device) {
  return device.has_end_state && !trace.origin.truncated_at_byte.has_value();
}

Baseline find_baseline(const trace::Trace& trace, const trace::DeviceTrace& device,
                       const FoundBlocks& found) {
  const std::span<const Event> events = trace.events_of(device);
  Baseline baseline;
  AddressScan scan(events, found);
  scan.settle_pending();
  // Requests alone, and nothing pending at the end: completions were not recorded.
  baseline.completes_on_request =
      scan.completes_on_request() && device.has_end_state && !has_pending_block(device);
  baseline.blocks = std::move(scan.freed_before_allocated());
  if (has_checkable_end_state(trace, device)) {
    undo_segment_events(device, events, scan.segment_events(), baseline);
    complete_sizes(device, scan, baseline.blocks);
    add_survivors(device, scan, baseline);
  } else {
    find_segments_given_back(events, scan.segment_events(), baseline);
  }
  std::sort(baseline.blocks.begin(), baseline.blocks.end(),
            [](const InitialBlock& a, const InitialBlock& b) { return a.address < b.address; });
  return baseline;
}

void assume_segments(const trace::DeviceTrace& device, std::span<const AddressRange> outside,
                     Baseline& baseline) {
  SegmentMap end_state;
  for (const trace::Segment& segment : device.segments) {
    end_state.add(segment.address, range_of(segment));
  }
  constexpr uint64_t kPage = kSmallSegmentBytes;
  std::vector<std::pair<uint64_t, uint64_t>> pages;  // [begin, end)
  for (const AddressRange& place : outside) {
    const auto known = end_state.containing(place.address);
    if (known != end_state.ranges().end() && baseline.segments.add(known->first, known->second)) {
      baseline.assumed_segment_bytes += known->second.size_bytes;
    }
    if (baseline.segments.containing(place.address) != baseline.segments.ranges().end()) continue;
    pages.emplace_back(place.address / kPage * kPage,
                       (place.address + place.size_bytes + kPage - 1) / kPage * kPage);
  }
  std::sort(pages.begin(), pages.end());
  for (size_t i = 0; i < pages.size();) {
    auto [begin, end] = pages[i];
    for (; i < pages.size() && pages[i].first < end; ++i) end = std::max(end, pages[i].second);
    const SegmentRange range{
        .size_bytes = end - begin, .pool = trace::kUnknownPool, .is_small = end - begin == kPage};
    if (baseline.segments.add(begin, range)) baseline.assumed_segment_bytes += end - begin;
  }
}

}  // namespace vram::replay
