#include "explain/moment/curve.hpp"

#include "explain/explain.hpp"
#include "explain/history/history.hpp"
#include "replay/segment_map.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vram::explain {
namespace {

using trace::Event;
using trace::EventKind;

Totals totals_before(std::span<const Event> events, const History& history) {
  Totals totals;
  totals.reserved_bytes = history.initial_reserved_bytes;
  for (uint32_t id = 0; id < history.before_recording_count; ++id) {
    const Lifetime& lifetime = history.lifetimes[id];
    totals.requested_bytes += lifetime.requested_bytes;
    totals.active_bytes += lifetime.block_bytes;
    if (!is_pending_before(events, history, id)) totals.allocated_bytes += lifetime.block_bytes;
  }
  return totals;
}

void raise(Moment& peak, uint64_t Totals::* total, const Totals& now, int64_t event) {
  if (now.*total <= peak.totals.*total && event != kBeforeFirstEvent) return;
  peak.event = event;
  peak.totals = now;
}

void raise(Totals& largest, const Totals& now) {
  largest.requested_bytes = std::max(largest.requested_bytes, now.requested_bytes);
  largest.allocated_bytes = std::max(largest.allocated_bytes, now.allocated_bytes);
  largest.active_bytes = std::max(largest.active_bytes, now.active_bytes);
  largest.reserved_bytes = std::max(largest.reserved_bytes, now.reserved_bytes);
}

// Fills equal slices of time as the walk passes them; a slice without events carries the last
// totals on.
class TimelineWriter {
 public:
  TimelineWriter(int64_t begin_ns, int64_t end_ns, uint32_t slices) : begin_ns_(begin_ns) {
    const auto length = static_cast<uint64_t>(std::max<int64_t>(end_ns - begin_ns, 0));
    length_ = length == std::numeric_limits<uint64_t>::max() ? length : length + 1;
    count_ = static_cast<uint32_t>(std::min<uint64_t>(std::max(slices, 1u), length_));
    timeline_.reserve(count_);
  }

  // Before the totals change at this time.
  void advance(int64_t time_ns, const Totals& before) {
    while (timeline_.empty() || (time_ns >= next_ns_ && timeline_.size() < count_)) {
      timeline_.push_back({begin_of(timeline_.size()), before});
      next_ns_ = begin_of(timeline_.size());
    }
  }
  void see(const Totals& now) { raise(timeline_.back().largest, now); }
  [[nodiscard]] bool is_due(int64_t time_ns) const {
    return timeline_.empty() || time_ns >= next_ns_;
  }
  std::vector<TimelineSlice> finish(const Totals& last) {
    while (timeline_.size() < count_) timeline_.push_back({begin_of(timeline_.size()), last});
    return std::move(timeline_);
  }

 private:
  [[nodiscard]] int64_t begin_of(uint64_t slice) const {
    return begin_ns_ +
           static_cast<int64_t>(length_ / count_ * slice + length_ % count_ * slice / count_);
  }
  int64_t begin_ns_;
  uint64_t length_ = 1;
  uint32_t count_ = 1;
  int64_t next_ns_ = 0;
  std::vector<TimelineSlice> timeline_;
};

int64_t latest_time(const EventClock& clock, int64_t event_count) {
  int64_t latest = clock.time_ns(0);
  for (int64_t i = 1; i < event_count; ++i) latest = std::max(latest, clock.time_ns(i));
  return latest;
}

void stamp(Curve& curve, const EventClock& clock) {
  Peak& peak = curve.peak;
  for (Moment* moment :
       {&peak.requested, &peak.allocated, &peak.active, &peak.reserved, &curve.fullest}) {
    moment->time_ns = clock.time_ns(moment->event);
  }
}

void raise_fullest(Moment& fullest, const Totals& now, int64_t event) {
  if (now.reserved_bytes < fullest.totals.reserved_bytes) return;
  const bool is_higher = now.reserved_bytes > fullest.totals.reserved_bytes;
  raise(fullest, is_higher ? &Totals::reserved_bytes : &Totals::requested_bytes, now, event);
}

void raise_all(Curve& curve, const Totals& now, int64_t event) {
  Peak& peak = curve.peak;
  raise(peak.requested, &Totals::requested_bytes, now, event);
  raise(peak.allocated, &Totals::allocated_bytes, now, event);
  raise(peak.active, &Totals::active_bytes, now, event);
  raise(peak.reserved, &Totals::reserved_bytes, now, event);
  raise_fullest(curve.fullest, now, event);
}

// Memory is reserved in the middle of a request and handed out at its end: only there does the
// state say what of it is in use.
void settle_reserved(Peak& peak, const Totals& totals, int64_t event) {
  if (event == 0 || peak.reserved.event + 1 != event) return;
  if (peak.reserved.totals.reserved_bytes != totals.reserved_bytes) return;
  peak.reserved.event = event;
  peak.reserved.totals = totals;
}

}  // namespace

TotalsWalker::TotalsWalker(std::span<const Event> events, const History& history)
    : TotalsWalker(events, history, 0, totals_before(events, history)) {}

TotalsWalker::TotalsWalker(std::span<const Event> events, const History& history,
                           uint64_t next_event, const Totals& totals)
    : events_(events), history_(&history), totals_(totals), next_(next_event) {
  const auto& implied = history.implied_frees;
  next_implied_ = static_cast<size_t>(
      std::partition_point(implied.begin(), implied.end(),
                           [&](const ImpliedFree& f) { return f.event < next_event; }) -
      implied.begin());
  const auto& ignored = history.ignored_segment_events;
  next_ignored_ = static_cast<size_t>(std::lower_bound(ignored.begin(), ignored.end(), next_event) -
                                      ignored.begin());
}

bool TotalsWalker::step() {
  const Event& event = events_[next_];
  const uint32_t id = history_->lifetime_of_event[next_];
  apply_implied_frees();
  bool rises = false;
  if (id != kNoLifetime) {
    rises = apply_block_event(event, history_->lifetimes[id]);
  } else if (is_segment_event(event.kind)) {
    rises = apply_segment_event(event);
  }
  ++next_;
  return rises;
}

bool TotalsWalker::apply_block_event(const Event& event, const Lifetime& lifetime) {
  if (event.kind == EventKind::kAlloc) {
    totals_.requested_bytes += lifetime.requested_bytes;
    totals_.allocated_bytes += lifetime.block_bytes;
    totals_.active_bytes += lifetime.block_bytes;
    return true;
  }
  if (event.kind == EventKind::kFreeCompleted) {
    release(lifetime);
    return false;
  }
  totals_.allocated_bytes -= lifetime.block_bytes;
  if (lifetime.free_completed_event == next_) {
    totals_.requested_bytes -= lifetime.requested_bytes;
    totals_.active_bytes -= lifetime.block_bytes;
  }
  return false;
}

bool TotalsWalker::apply_segment_event(const Event& event) {
  const auto& ignored = history_->ignored_segment_events;
  if (next_ignored_ < ignored.size() && ignored[next_ignored_] == next_) {
    ++next_ignored_;
    return false;
  }
  const bool adds = event.kind == EventKind::kSegmentAlloc || event.kind == EventKind::kSegmentMap;
  totals_.reserved_bytes += adds ? event.size_bytes : uint64_t{0} - event.size_bytes;
  return adds;
}

void TotalsWalker::apply_implied_frees() {
  const auto& implied = history_->implied_frees;
  for (; next_implied_ < implied.size() && implied[next_implied_].event == next_; ++next_implied_) {
    release(history_->lifetimes[implied[next_implied_].lifetime]);
  }
}

void TotalsWalker::release(const Lifetime& lifetime) {
  totals_.requested_bytes -= lifetime.requested_bytes;
  totals_.active_bytes -= lifetime.block_bytes;
  if (lifetime.free_requested_event == kNever) totals_.allocated_bytes -= lifetime.block_bytes;
}

Curve draw_curve(const trace::Trace& trace, const trace::DeviceTrace& device,
                 const History& history, const EventClock& clock, uint32_t timeline_slices) {
  const std::span<const Event> events = trace.events_of(device);
  TotalsWalker walker(events, history);
  Curve curve;
  curve.initial = walker.totals();
  const auto count = static_cast<int64_t>(history.lifetime_of_event.size());
  curve.end_ns = latest_time(clock, count);
  TimelineWriter timeline(clock.time_ns(0), curve.end_ns, timeline_slices);
  raise_all(curve, curve.initial, kBeforeFirstEvent);
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(i) % kCheckpointEvents == 0)
      curve.checkpoints.push_back(walker.totals());
    const int64_t time_ns = clock.time_ns(i);
    if (timeline.is_due(time_ns)) timeline.advance(time_ns, walker.totals());
    if (!walker.step()) continue;
    raise_all(curve, walker.totals(), i);
    if (events[static_cast<size_t>(i)].kind == EventKind::kAlloc)
      settle_reserved(curve.peak, walker.totals(), i);
    timeline.see(walker.totals());
  }
  curve.last = walker.totals();
  stamp(curve, clock);
  curve.timeline = timeline.finish(curve.last);
  return curve;
}

Moment moment_after(const trace::Trace& trace, const trace::DeviceTrace& device,
                    const History& history, const EventClock& clock, const Curve& curve,
                    int64_t event) {
  const auto count = static_cast<int64_t>(history.lifetime_of_event.size());
  event = std::min(event, count - 1);
  if (event < 0) return {clock.time_ns(event), kBeforeFirstEvent, curve.initial};
  const uint64_t checkpoint = static_cast<uint64_t>(event) / kCheckpointEvents;
  TotalsWalker walker(trace.events_of(device), history, checkpoint * kCheckpointEvents,
                      curve.checkpoints[checkpoint]);
  while (walker.next_event() <= static_cast<uint64_t>(event)) walker.step();
  return {clock.time_ns(event), event, walker.totals()};
}

namespace {

void add_point(std::vector<TimelinePoint>& points, int64_t time_ns, const Totals& totals) {
  const TimelinePoint point{time_ns, totals.allocated_bytes, totals.reserved_bytes};
  if (!points.empty() && points.back().time_ns == time_ns) {
    points.back() = point;
    return;
  }
  if (!points.empty() && points.back().allocated_bytes == point.allocated_bytes &&
      points.back().reserved_bytes == point.reserved_bytes) {
    return;
  }
  points.push_back(point);
}

MemoryTimeline timeline_of_device(const trace::Trace& trace, const trace::DeviceTrace& device) {
  const History history = replay_history(trace, device);
  const EventClock clock(trace, device);
  TotalsWalker walker(trace.events_of(device), history);
  MemoryTimeline timeline{.ordinal = device.ordinal,
                          .has_time = trace.has_time,
                          .end_ns = 0,
                          .memory_bytes = memory_bytes_of(trace, device),
                          .peak_requested_bytes = walker.totals().requested_bytes,
                          .points = {}};
  add_point(timeline.points, 0, walker.totals());
  while (!walker.at_end()) {
    // A clock that stepped back: what comes later is seen later.
    timeline.end_ns =
        std::max(timeline.end_ns, clock.time_ns(static_cast<int64_t>(walker.next_event())));
    walker.step();
    add_point(timeline.points, timeline.end_ns, walker.totals());
    timeline.peak_requested_bytes =
        std::max(timeline.peak_requested_bytes, walker.totals().requested_bytes);
  }
  return timeline;
}

}  // namespace

Result<MemoryTimeline> timeline_of(const trace::Trace& trace) {
  std::optional<MemoryTimeline> lead;
  bool is_host = true;
  for (const trace::DeviceTrace& device : trace.devices) {
    const bool is_gpu = device.kind == trace::DeviceKind::kGpu;
    if (lead && !is_gpu && !is_host) continue;
    MemoryTimeline timeline = timeline_of_device(trace, device);
    const bool leads =
        !lead || (is_gpu && is_host) || timeline.peak_requested_bytes > lead->peak_requested_bytes;
    if (!leads) continue;
    lead = std::move(timeline);
    is_host = !is_gpu;
  }
  if (!lead) {
    return fail(Code::kBadInput, "{} has neither events nor segments of GPU memory",
                trace.origin.path);
  }
  return *std::move(lead);
}

}  // namespace vram::explain
