// Curve: the totals of one device after every event, in one linear pass: exact peaks, the timeline,
// and the totals at any event. As in PyTorch's counters, requested and active bytes fall when a
// free completes, and allocated bytes when it is requested. TotalsWalker is the pass itself, for
// totals event by event.
#pragma once

#include "base/pod_vector.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/clock.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// Steps through a device's events and keeps the totals. Views its arguments; allocates nothing.
class TotalsWalker {
 public:
  // Starts before the first event.
  TotalsWalker(std::span<const trace::Event> events, const History& history);
  // Starts where `totals` applied: before event number `next_event`.
  TotalsWalker(std::span<const trace::Event> events, const History& history, uint64_t next_event,
               const Totals& totals);

  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] uint64_t next_event() const { return next_; }
  [[nodiscard]] bool at_end() const { return next_ >= history_->lifetime_of_event.size(); }
  // Applies the next event. True when a total may have risen.
  bool step();

 private:
  bool apply_block_event(const trace::Event& event, const Lifetime& lifetime);
  bool apply_segment_event(const trace::Event& event);
  void apply_implied_frees();
  void release(const Lifetime& lifetime);

  std::span<const trace::Event> events_;
  const History* history_;
  Totals totals_;
  uint64_t next_ = 0;
  size_t next_implied_ = 0;
  size_t next_ignored_ = 0;
};

struct Curve {
  Peak peak;  // over the states before the first event and after each
  // Of the moments at which most was reserved, the first of those with most requested.
  Moment fullest;
  int64_t end_ns = 0;  // of the latest event; clocks may step back
  std::vector<TimelineSlice> timeline;
  Totals initial;                 // before the first event
  Totals last;                    // after the last one
  PodVector<Totals> checkpoints;  // before events 0, kCheckpointEvents, 2 * kCheckpointEvents, ...
};

inline constexpr uint64_t kCheckpointEvents = 4096;

[[nodiscard]] Curve draw_curve(const trace::Trace& trace, const trace::DeviceTrace& device,
                               const History& history, const EventClock& clock,
                               uint32_t timeline_slices);

// After this event, or before the first one; in at most kCheckpointEvents steps.
[[nodiscard]] Moment moment_after(const trace::Trace& trace, const trace::DeviceTrace& device,
                                  const History& history, const EventClock& clock,
                                  const Curve& curve, int64_t event);

}  // namespace vram::explain
