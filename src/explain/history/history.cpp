#include "explain/history/history.hpp"

#include "explain/history/heap.hpp"
#include "explain/history/verdict.hpp"
#include "replay/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vram::explain {
namespace {

using replay::FoundBlocks;
using replay::InitialBlock;
using replay::is_plausible;
using replay::range_of;
using trace::Event;
using trace::EventKind;

// One run through a device's events: the heap follows, lifetimes are written down.
class Replay {
 public:
  Replay(const AllocatorRules& rules, std::span<const Event> events, const Baseline& baseline,
         const FoundBlocks& found)
      : events_(events), baseline_(baseline), found_(found), heap_(rules) {
    history_.initial_segments = baseline.segments;
    history_.initial_reserved_bytes = baseline.segments.total_bytes();
    for (const auto& [address, range] : baseline.segments.ranges()) {
      heap_.add_segment(address, range);
    }
    for (const InitialBlock& block : baseline.blocks) place(block);
    history_.before_recording_count = history_.lifetimes.size();
  }

  void run() {
    history_.lifetime_of_event.reserve(events_.size());
    for (uint32_t i = 0; i < events_.size(); ++i) {
      const uint64_t before = heap_.contradictions();
      history_.lifetime_of_event.push_back(step(i));
      if (heap_.has_evicted()) end_evicted(i);
      if (heap_.contradictions() != before) note_trouble(i);
    }
    write_final_sizes();
  }

  [[nodiscard]] History& history() { return history_; }
  [[nodiscard]] const Heap& heap() const { return heap_; }
  [[nodiscard]] ReplayTrouble trouble() const {
    return {heap_.contradictions() + ignored_, first_trouble_};
  }

 private:
  void place(const InitialBlock& block) {
    const auto id = static_cast<uint32_t>(history_.lifetimes.size());
    if (!heap_.place(block.address, block.requested_bytes, block.block_bytes, id)) {
      first_trouble_ = trf("block {:#x} ({} bytes, from before the recording) has no room",
                           block.address, block.requested_bytes);
      return;
    }
    const uint32_t placed = heap_.find(block.address);
    const uint64_t block_bytes = heap_.block(placed).size_bytes;
    Lifetime lifetime{.address = block.address,
                      .requested_bytes = std::min(block.requested_bytes, block_bytes),
                      .block_bytes = block_bytes,
                      .stack = block.stack,
                      .stream = block.stream,
                      .pool = block.pool};
    if (block.is_pending) {
      heap_.request_free(placed);
      lifetime.free_requested_event = 0;
    }
    history_.lifetimes.push_back(lifetime);
  }

  uint32_t step(uint32_t i) {
    const Event& event = events_[i];
    switch (event.kind) {
      case EventKind::kAlloc:
        return allocate(i, event);
      case EventKind::kFreeRequested:
        return request_free(i, event);
      case EventKind::kFreeCompleted:
        return complete_free(i, event);
      case EventKind::kSegmentAlloc:
      case EventKind::kSegmentMap:
      case EventKind::kSegmentFree:
      case EventKind::kSegmentUnmap:
        move_segment(i, event);
        return kNoLifetime;
      default:
        return kNoLifetime;
    }
  }

  uint32_t allocate(uint32_t i, const Event& event) {
    if (!is_plausible(event.address, event.size_bytes)) return ignore(i);
    const auto id = static_cast<uint32_t>(history_.lifetimes.size());
    const uint32_t block = found_.is_one(event)
                               ? settle(event, id)
                               : heap_.allocate(event.address, event.size_bytes, id);
    if (block == Heap::kNone) return kNoLifetime;
    const uint64_t block_bytes = heap_.block(block).size_bytes;
    // A contradiction may leave less room than asked for: no block asks for more than it has.
    history_.lifetimes.push_back({.address = event.address,
                                  .requested_bytes = std::min(event.size_bytes, block_bytes),
                                  .block_bytes = block_bytes,
                                  .alloc_event = i,
                                  .stack = event.stack,
                                  .context = event.context,
                                  .stream = event.stream,
                                  .pool = event.pool});
    return id;
  }

  uint32_t settle(const Event& event, uint32_t id) {
    const auto known = baseline_.found_bytes.find(event.address);
    const uint64_t size = known != baseline_.found_bytes.end() ? known->second : 0;
    const uint32_t block = heap_.settle(event.address, event.size_bytes, size, id);
    if (block != Heap::kNone) settled_.push_back(id);
    return block;
  }

  uint32_t request_free(uint32_t i, const Event& event) {
    const uint32_t block = heap_.live_block_at(event.address);
    if (block == Heap::kNone || heap_.block(block).state == trace::BlockState::kPendingFree) {
      return ignore(i);
    }
    const uint32_t id = heap_.block(block).tenant;
    history_.lifetimes[id].free_requested_event = i;
    heap_.request_free(block);
    if (baseline_.completes_on_request) finish(i, block);
    return id;
  }

  uint32_t complete_free(uint32_t i, const Event& event) {
    const uint32_t block = heap_.live_block_at(event.address);
    if (block == Heap::kNone) return ignore(i);
    const uint32_t id = heap_.block(block).tenant;
    finish(i, block);
    return id;
  }

  void finish(uint32_t i, uint32_t block) {
    Lifetime& lifetime = history_.lifetimes[heap_.block(block).tenant];
    lifetime.free_completed_event = i;
    // A block from before the recording may have turned out larger since.
    if (lifetime.alloc_event == kBeforeRecording || found_.is_found(lifetime.context))
      lifetime.block_bytes = heap_.block(block).size_bytes;
    heap_.complete_free(block);
  }

  void move_segment(uint32_t i, const Event& event) {
    const bool adds =
        event.kind == EventKind::kSegmentAlloc || event.kind == EventKind::kSegmentMap;
    const bool done = adds ? heap_.add_segment(event.address, range_of(event))
                           : heap_.remove_segment(event.address, event.size_bytes);
    if (!done) history_.ignored_segment_events.push_back(i);
  }

  void end_evicted(uint32_t i) {
    for (const uint32_t id : heap_.evicted()) {
      history_.lifetimes[id].free_completed_event = i;
      history_.implied_frees.push_back({i, id});
    }
    heap_.evicted().clear();
  }

  uint32_t ignore(uint32_t i) {
    ++ignored_;
    note_trouble(i);
    return kNoLifetime;
  }

  void note_trouble(uint32_t i) {
    if (!first_trouble_.empty()) return;
    first_trouble_ = trf("event {} ({} of {} bytes at {:#x})", i, trace::to_string(events_[i].kind),
                         events_[i].size_bytes, events_[i].address);
  }

  void write_final_sizes() {
    for (uint32_t id = 0; id < history_.before_recording_count; ++id) write_final_size(id);
    for (const uint32_t id : settled_) write_final_size(id);
  }
  void write_final_size(uint32_t id) {
    Lifetime& lifetime = history_.lifetimes[id];
    if (lifetime.free_completed_event != kNever) return;
    lifetime.block_bytes = heap_.block(heap_.find(lifetime.address)).size_bytes;
  }

  std::span<const Event> events_;
  const Baseline& baseline_;
  const FoundBlocks& found_;
  Heap heap_;
  History history_;
  std::vector<uint32_t> settled_;  // lifetimes
  uint64_t ignored_ = 0;
  std::string first_trouble_;
};

void sum_before_recording(const History& history, Verdict& verdict) {
  for (uint64_t id = 0; id < history.before_recording_count; ++id) {
    verdict.before_recording_bytes += history.lifetimes[id].block_bytes;
  }
  verdict.before_recording_count = history.before_recording_count;
}

History finish(const trace::Trace& trace, const trace::DeviceTrace& device,
               const Baseline& baseline, Replay& replay) {
  History history = std::move(replay.history());
  history.verdict =
      judge(trace, device, baseline, replay.heap(), history.lifetimes.span(), replay.trouble());
  sum_before_recording(history, history.verdict);
  return history;
}

}  // namespace

bool is_pending_before(std::span<const Event> events, const History& history, uint32_t lifetime) {
  if (lifetime >= history.before_recording_count ||
      history.lifetimes[lifetime].free_requested_event != 0)
    return false;
  const bool is_event_0 = !events.empty() && history.lifetime_of_event[0] == lifetime &&
                          events[0].kind == EventKind::kFreeRequested;
  return !is_event_0;
}

History replay_history(const trace::Trace& trace, const trace::DeviceTrace& device) {
  return replay_history(trace, device,
                        replay::find_baseline(trace, device, FoundBlocks(trace.tables)));
}

History replay_history(const trace::Trace& trace, const trace::DeviceTrace& device,
                       Baseline baseline) {
  const std::span<const Event> all = trace.events_of(device);
  // Event numbers are 32 bits wide, with one value to spare.
  const std::span<const Event> events = all.first(std::min<size_t>(all.size(), kNever));
  const AllocatorRules rules = rules_of(trace, device.kind);
  const FoundBlocks found(trace.tables);
  std::vector<Heap::Outside> outside;
  {
    Replay replay(rules, events, baseline, found);
    replay.run();
    outside = replay.heap().outside();
    if (outside.empty()) return finish(trace, device, baseline, replay);
  }
  // Memory is used that no segment covers. Every block needs one, so that the totals stay ordered:
  // assume them.
  replay::assume_segments(device, outside, baseline);
  Replay again(rules, events, baseline, found);
  again.run();
  return finish(trace, device, baseline, again);
}

}  // namespace vram::explain
