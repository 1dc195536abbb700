#include "explain/steps/boundaries.hpp"

#include "base/statistics.hpp"
#include "explain/moment/curve.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace vram::explain {
namespace {

constexpr double kSetupFactor = 1.3;  // a first part so much longer than a step has the set-up
constexpr double kUnfinishedSwing =
    0.25;  // a last part that ends this share of the swing above the others is cut off
constexpr uint64_t kFewEvents = 16;
// Live bytes up to this share of a window's swing above its lowest count as lowest. A mark is
// always at the same place of the program, so that a boundary near it matters more than the exact
// minimum; a repeated sequence may be anywhere in the step.
constexpr double kLowAfterMark = 0.15;
constexpr double kLowAfterSequence = 0.02;
constexpr double kSameCourse = 0.9;         // of the windows
constexpr uint64_t kMaxDistance = 1 << 20;  // events from a sequence to the boundary

struct Recorded {
  std::span<const trace::Event> events;
  const History& history;
};

struct Low {
  uint64_t boundary = 0;  // the first event before which live bytes were about lowest
  uint64_t live_bytes = std::numeric_limits<uint64_t>::max();
  uint64_t highest_bytes = 0;

  // Of the window's swing.
  [[nodiscard]] double share_above(uint64_t live) const {
    const uint64_t swing = highest_bytes - live_bytes;
    return swing == 0 ? 0 : static_cast<double>(live - live_bytes) / static_cast<double>(swing);
  }
};

// Calls `visit` with each window, the number of the next event and the live bytes before it, from
// the window's first event to its end. Windows ascend and do not overlap.
template <typename Visit>
void walk_windows(const Recorded& in, const std::vector<EventRange>& windows, Visit&& visit) {
  TotalsWalker walk(in.events, in.history);
  size_t w = 0;
  for (uint64_t e = 0; e < in.events.size() && w < windows.size(); ++e) {
    while (w < windows.size() && e >= windows[w].end) ++w;
    const bool inside = w < windows.size() && e >= windows[w].first;
    if (inside && e == windows[w].first) visit(w, e, walk.totals().requested_bytes);
    walk.step();
    if (inside) visit(w, e + 1, walk.totals().requested_bytes);
  }
}

// What happens after the begins of windows, event by event, as long as it is the same in nearly
// all: a repeated sequence is at one place of the program, and what follows does not depend on the
// batch, up to what only some steps do.
class CommonCourse {
 public:
  CommonCourse(const Recorded& in, const std::vector<EventRange>& windows) {
    uint64_t longest = 0;
    for (const EventRange& window : windows) longest = std::max(longest, window.end - window.first);
    std::vector<Deed> deeds(std::min(longest, kMaxDistance));
    // The majority vote of Boyer and Moore finds the only deed that can be of most windows.
    each_deed(in, windows, [&](uint64_t distance, uint64_t deed) {
      Deed& most = deeds[distance];
      if (most.votes == 0) most.deed = deed;
      most.votes += most.deed == deed ? 1 : -1;
    });
    each_deed(in, windows, [&](uint64_t distance, uint64_t deed) {
      deeds[distance].windows += deeds[distance].deed == deed ? 1 : 0;
    });
    const auto end = std::ranges::find_if(deeds, [&](const Deed& d) {
      return static_cast<double>(d.windows) < kSameCourse * static_cast<double>(windows.size());
    });
    events_ = static_cast<uint64_t>(end - deeds.begin());
  }
  [[nodiscard]] uint64_t events() const { return events_; }

 private:
  struct Deed {
    uint64_t deed = 0;
    int32_t votes = 0;
    uint32_t windows = 0;
  };

  // The lifetime of the last allocation before an event.
  static uint64_t latest_before(const Recorded& in, uint64_t event) {
    while (event-- > 0) {
      const uint32_t index = in.history.lifetime_of_event[event];
      if (in.events[event].kind == trace::EventKind::kAlloc && index != kNoLifetime) return index;
    }
    return 0;
  }

  // An allocation, of any size, or a free of a block with so many allocations since its own.
  template <typename Visit>
  static void each_deed(const Recorded& in, const std::vector<EventRange>& windows, Visit&& visit) {
    for (const EventRange& window : windows) {
      uint64_t latest = latest_before(in, window.first);
      const uint64_t end = std::min(window.end, window.first + kMaxDistance);
      for (uint64_t e = window.first; e < end; ++e) {
        const uint32_t index = in.history.lifetime_of_event[e];
        const bool is_alloc = in.events[e].kind == trace::EventKind::kAlloc;
        if (is_alloc && index != kNoLifetime) latest = index;
        const uint64_t age = is_alloc || index == kNoLifetime ? 0 : latest - index;
        visit(e - window.first, age << 8 | static_cast<uint64_t>(in.events[e].kind));
      }
    }
  }

  uint64_t events_ = 0;
};

// How many events after their begin live bytes of windows are lowest, as far as their course is the
// same. Nothing: they are high in most windows then.
std::optional<uint64_t> usual_distance(const Recorded& in, const std::vector<EventRange>& windows,
                                       const std::vector<Low>& lows) {
  struct Point {
    uint32_t windows = 0;
    double above = 0;  // sum of the shares of their swing
  };
  std::vector<Point> points(CommonCourse(in, windows).events() + 1);
  walk_windows(in, windows, [&](size_t w, uint64_t e, uint64_t live) {
    const uint64_t distance = e - windows[w].first;
    const double above = lows[w].share_above(live);
    if (distance >= points.size() || above > kLowAfterMark) return;
    ++points[distance].windows;
    points[distance].above += above;
  });
  const auto lowest = std::ranges::max_element(points, [](const Point& a, const Point& b) {
    return a.windows != b.windows ? a.windows < b.windows : a.above > b.above;
  });
  if (lowest->windows * 2 <= windows.size()) return std::nullopt;
  return static_cast<uint64_t>(lowest - points.begin());
}

std::vector<Low> levels_in(const Recorded& in, const std::vector<EventRange>& windows) {
  std::vector<Low> lows(windows.size());
  walk_windows(in, windows, [&](size_t w, uint64_t, uint64_t live) {
    lows[w].live_bytes = std::min(lows[w].live_bytes, live);
    lows[w].highest_bytes = std::max(lows[w].highest_bytes, live);
  });
  return lows;
}

// Of each window the point at the usual distance, if it is low; else the first of those at which
// live bytes were lowest, or this share of their swing above that: batches of different size must
// not move the boundary from step to step.
void set_boundaries(const Recorded& in, const std::vector<EventRange>& windows, double same_level,
                    std::optional<uint64_t> usual, std::vector<Low>* lows) {
  walk_windows(in, windows, [&](size_t w, uint64_t e, uint64_t live) {
    Low& low = (*lows)[w];
    const double above = low.share_above(live);
    const bool is_usual = usual && e - windows[w].first == *usual && above <= kLowAfterMark;
    if (is_usual || (low.boundary == 0 && above <= same_level)) low.boundary = e;
  });
  for (size_t i = 0; i < lows->size(); ++i) {
    if ((*lows)[i].boundary == 0) (*lows)[i].boundary = windows[i].end;  // an empty window
  }
}

// Without a whole step before it, the first part would count the program's set-up as its first
// step.
void leave_out_setup(std::vector<EventRange>* ranges) {
  if (ranges->size() < 3) return;
  std::vector<uint64_t> lengths;
  for (size_t i = 1; i < ranges->size(); ++i)
    lengths.push_back((*ranges)[i].end - (*ranges)[i].first);
  const uint64_t typical = median_of(std::move(lengths));
  EventRange& first = ranges->front();
  if (static_cast<double>(first.end - first.first) > kSetupFactor * static_cast<double>(typical)) {
    first.first = first.end - typical;
  }
}

// How many events are between a mark and the end of its step, where another mark follows.
uint64_t typical_rest(const std::vector<EventRange>& marks, const std::vector<Low>& lows) {
  std::vector<uint64_t> rests;
  rests.reserve(lows.size());
  for (size_t i = 0; i < lows.size(); ++i) rests.push_back(lows[i].boundary - marks[i].end);
  return median_of(std::move(rests));
}

// Was the recording cut before the last mark's step was over?
bool is_unfinished(const std::vector<Low>& lows, uint64_t events_left, uint64_t rest) {
  if (lows.size() < 3) return false;
  if ((events_left + kFewEvents) * 2 < rest) return true;
  std::vector<uint64_t> levels;
  for (size_t i = 0; i + 1 < lows.size(); ++i) levels.push_back(lows[i].live_bytes);
  const auto [low, high] = std::minmax_element(levels.begin(), levels.end());
  const uint64_t room =
      (*high - *low) + static_cast<uint64_t>(kUnfinishedSwing * static_cast<double>(*high));
  return lows.back().live_bytes != std::numeric_limits<uint64_t>::max() &&
         lows.back().live_bytes > *high + room;
}

}  // namespace

std::vector<EventRange> ranges_around(std::span<const trace::Event> events, const History& history,
                                      const std::vector<EventRange>& marks, bool are_sequences) {
  const Recorded in{events, history};
  std::vector<EventRange> windows;
  for (size_t i = 0; i + 1 < marks.size(); ++i) {
    windows.push_back({marks[i].end, std::max(marks[i + 1].first, marks[i].end)});
  }
  const double same_level = are_sequences ? kLowAfterSequence : kLowAfterMark;
  std::vector<Low> lows = levels_in(in, windows);
  const auto usual = are_sequences ? usual_distance(in, windows, lows) : std::nullopt;
  set_boundaries(in, windows, same_level, usual, &lows);
  const uint64_t rest = typical_rest(marks, lows);
  const uint64_t left = in.events.size() - marks.back().end;
  const std::vector<EventRange> last = {
      {marks.back().end, marks.back().end + std::min(left, rest)}};
  std::vector<Low> last_low = levels_in(in, last);
  set_boundaries(in, last, same_level, usual, &last_low);
  lows.push_back(last_low.front());
  std::vector<EventRange> ranges;
  uint64_t begin = 0;
  for (const Low& low : lows) {
    ranges.push_back({begin, low.boundary});
    begin = low.boundary;
  }
  if (are_sequences && is_unfinished(lows, left, rest)) ranges.pop_back();
  leave_out_setup(&ranges);
  return ranges;
}

}  // namespace vram::explain
