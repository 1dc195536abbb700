#include "explain/moment/live_set.hpp"

#include <algorithm>
#include <numeric>

namespace vram::explain {
namespace {

// Indices of `events`, by rising event.
std::vector<size_t> order_of(std::span<const int64_t> events) {
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return events[a] < events[b]; });
  return order;
}

void gather_segments(const trace::Trace& trace, const trace::DeviceTrace& device,
                     const History& history, const std::vector<size_t>& order,
                     std::vector<LiveSet>& sets) {
  const std::span<const trace::Event> events = trace.events_of(device);
  SegmentMap now = history.initial_segments;
  auto ignored = history.ignored_segment_events.begin();
  uint64_t next = 0;
  for (const size_t at : order) {
    const uint64_t end = std::min<uint64_t>(static_cast<uint64_t>(sets[at].event + 1),
                                            history.lifetime_of_event.size());
    for (; next < end; ++next) {
      if (!is_segment_event(events[next].kind)) continue;
      if (ignored != history.ignored_segment_events.end() && *ignored == next) {
        ++ignored;
      } else {
        now.apply(events[next]);
      }
    }
    sets[at].segments = now;
  }
}

void gather_lifetimes(const History& history, const std::vector<size_t>& order,
                      std::vector<LiveSet>& sets) {
  for (uint32_t id = 0; id < history.lifetimes.size(); ++id) {
    const Lifetime& lifetime = history.lifetimes[id];
    const int64_t begin = lifetime.alloc_event == kBeforeRecording ? kBeforeFirstEvent
                                                                   : int64_t{lifetime.alloc_event};
    const int64_t end = lifetime.free_completed_event == kNever
                            ? INT64_MAX
                            : int64_t{lifetime.free_completed_event};
    auto at = std::partition_point(order.begin(), order.end(),
                                   [&](size_t i) { return sets[i].event < begin; });
    for (; at != order.end() && sets[*at].event < end; ++at) sets[*at].lifetimes.push_back(id);
  }
}

}  // namespace

std::vector<LiveSet> gather_live(const trace::Trace& trace, const trace::DeviceTrace& device,
                                 const History& history, std::span<const int64_t> events) {
  std::vector<LiveSet> sets(events.size());
  for (size_t i = 0; i < events.size(); ++i) sets[i].event = events[i];
  const std::vector<size_t> order = order_of(events);
  gather_segments(trace, device, history, order, sets);
  gather_lifetimes(history, order, sets);
  for (LiveSet& set : sets) {
    std::sort(set.lifetimes.begin(), set.lifetimes.end(), [&](uint32_t a, uint32_t b) {
      return history.lifetimes[a].address < history.lifetimes[b].address;
    });
  }
  return sets;
}

std::vector<SegmentView> view_segments(const History& history, const LiveSet& live) {
  std::vector<SegmentView> views;
  views.reserve(live.segments.ranges().size());
  size_t next = 0;
  const auto address_of = [&](size_t i) { return history.lifetimes[live.lifetimes[i]].address; };
  for (const auto& [address, range] : live.segments.ranges()) {
    while (next < live.lifetimes.size() && address_of(next) < address) ++next;
    const size_t first = next;
    while (next < live.lifetimes.size() && address_of(next) - address < range.size_bytes) ++next;
    views.push_back({address, range, first, next});
  }
  return views;
}

}  // namespace vram::explain
