#include "explain/steps/boundaries.hpp"

#include "base/statistics.hpp"
#include "explain/moment/curve.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

namespace vram::explain {
namespace {

constexpr double kSetupFactor = 1.3;  // a first part so much longer than a step has the set-up
constexpr double kUnfinishedSwing =
    0.25;  // a last part that ends this share of the swing above the others is cut off
constexpr uint64_t kFewEvents = 16;
// Live bytes up to this share of a window's swing above its lowest count as lowest. An annotation
// is always at the same place of the program, so that a boundary near it matters more than the
// exact minimum; a repeated sequence may be anywhere in the step.
constexpr double kLowAfterMark = 0.15;
constexpr double kLowAfterSequence = 0.02;
constexpr double kSamePlace = 0.8;     // of the windows
constexpr size_t kSampledWindows = 8;  // whose places are looked for in all
constexpr uint64_t kMaxSampledPlaces = 1 << 20;

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

// The latest deeds before an event: allocations, of any size, and frees of blocks with so many
// allocations since their own. At one place of the program they are the same in every step,
// whatever its batch, and whatever else only some of the steps do before them.
class LatestDeeds {
 public:
  explicit LatestDeeds(const Recorded& in) : in_(in) {}

  [[nodiscard]] bool is_deed(uint64_t event) const {
    const uint32_t index = in_.history.lifetime_of_event[event];
    if (index == kNoLifetime) return false;
    const Lifetime& l = in_.history.lifetimes[index];
    return l.alloc_event == event ||
           std::min(l.free_requested_event, l.free_completed_event) == event;
  }
  // Reads the deeds up to before `event`.
  void advance_to(uint64_t event) {
    for (; next_ < event; ++next_) {
      if (!is_deed(next_)) continue;
      const uint32_t index = in_.history.lifetime_of_event[next_];
      const bool is_alloc = in_.history.lifetimes[index].alloc_event == next_;
      if (is_alloc) latest_ = index;
      deeds_[count_++ % kDeeds] = is_alloc ? 0 : 1 + uint64_t{latest_} - index;
    }
  }
  [[nodiscard]] uint64_t hash() const {
    uint64_t hash = 0;
    for (size_t i = 0; i < kDeeds; ++i) {
      hash = (hash + deeds_[(count_ + i) % kDeeds]) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 29;
    }
    return hash;
  }

 private:
  static constexpr size_t kDeeds = 4;
  const Recorded& in_;
  uint64_t next_ = 0;
  uint32_t latest_ = 0;  // the lifetime of the last allocation
  size_t count_ = 0;
  std::array<uint64_t, kDeeds> deeds_{};
};

// Calls `visit` with each deed before which live bytes are low: its window, its event, the share of
// the window's swing above the lowest, and the hash of the deeds before it.
template <typename Visit>
void walk_low_places(const Recorded& in, const std::vector<EventRange>& windows,
                     const std::vector<Low>& lows, Visit&& visit) {
  LatestDeeds deeds(in);
  walk_windows(in, windows, [&](size_t w, uint64_t e, uint64_t live) {
    const double above = lows[w].share_above(live);
    if (above > kLowAfterMark || e >= windows[w].end || !deeds.is_deed(e)) return;
    deeds.advance_to(e);
    visit(w, e, above, deeds.hash());
  });
}

// The places of the program at which live bytes are low: in how many windows is each of them once?
class LowPlaces {
 public:
  LowPlaces(const Recorded& in, const std::vector<EventRange>& windows,
            const std::vector<Low>& lows)
      : windows_(windows.size()) {
    const size_t stride = std::max<size_t>(windows.size() / kSampledWindows, 1);
    std::vector<EventRange> sampled;
    std::vector<Low> sampled_lows;
    uint64_t events = 0;
    for (size_t w = stride / 2; w < windows.size(); w += stride) {
      sampled.push_back(windows[w]);
      sampled_lows.push_back(lows[w]);
      events += windows[w].end - windows[w].first;
    }
    uint64_t mask = 0;
    while (events / (mask + 1) > kMaxSampledPlaces) mask = mask * 2 + 1;
    walk_low_places(in, sampled, sampled_lows, [&](size_t, uint64_t, double, uint64_t hash) {
      if ((hash & mask) == 0) places_.try_emplace(hash);
    });
    walk_low_places(in, windows, lows, [&](size_t w, uint64_t e, double above, uint64_t hash) {
      const auto place = places_.find(hash);
      if (place != places_.end())
        place->second.add(w, above, static_cast<double>(e - windows[w].first));
    });
  }

  // The lowest of those that nearly all windows have; the first after the mark of several.
  [[nodiscard]] std::optional<uint64_t> usual() const {
    std::optional<uint64_t> lowest;
    std::pair<double, double> least;
    for (const auto& [hash, place] : places_) {
      if (static_cast<double>(place.windows) < kSamePlace * static_cast<double>(windows_)) continue;
      const std::pair mine(place.above / place.windows, place.distance / place.windows);
      if (lowest && mine > least) continue;
      lowest = hash;
      least = mine;
    }
    return lowest;
  }

 private:
  struct Place {
    uint32_t windows = 0;  // that have it once
    double above = 0;      // sum over these windows: the share of their swing
    double distance = 0;   // likewise: the events from their begin
    size_t last_window = 0;
    uint32_t last_times = 0;  // in the last window that has it
    double last_above = 0;
    double last_distance = 0;

    void add(size_t window, double share, double events) {
      last_times = last_window == window ? last_times + 1 : 1;
      last_window = window;
      if (last_times == 1) {
        ++windows;
        above += last_above = share;
        distance += last_distance = events;
      } else if (last_times == 2) {
        --windows;
        above -= last_above;
        distance -= last_distance;
      }
    }
  };

  size_t windows_;
  std::unordered_map<uint64_t, Place> places_;
};

std::vector<Low> levels_in(const Recorded& in, const std::vector<EventRange>& windows) {
  std::vector<Low> lows(windows.size());
  walk_windows(in, windows, [&](size_t w, uint64_t, uint64_t live) {
    lows[w].live_bytes = std::min(lows[w].live_bytes, live);
    lows[w].highest_bytes = std::max(lows[w].highest_bytes, live);
  });
  return lows;
}

// Of each window the usual place; if it is not there, the first of those points at which live bytes
// were lowest, or this share of their swing above that: batches of different size must not move the
// boundary from step to step.
void set_boundaries(const Recorded& in, const std::vector<EventRange>& windows, double same_level,
                    std::optional<uint64_t> usual, std::vector<Low>* lows) {
  if (usual) {
    walk_low_places(in, windows, *lows, [&](size_t w, uint64_t e, double, uint64_t hash) {
      if (hash == *usual && (*lows)[w].boundary == 0) (*lows)[w].boundary = e;
    });
  }
  walk_windows(in, windows, [&](size_t w, uint64_t e, uint64_t live) {
    Low& low = (*lows)[w];
    if (low.boundary == 0 && low.share_above(live) <= same_level) low.boundary = e;
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
                                      const std::vector<EventRange>& marks, MarkKind kind) {
  const Recorded in{events, history};
  std::vector<EventRange> windows;
  for (size_t i = 0; i + 1 < marks.size(); ++i) {
    windows.push_back({marks[i].end, std::max(marks[i + 1].first, marks[i].end)});
  }
  const double same_level = kind == MarkKind::kAnnotation ? kLowAfterMark : kLowAfterSequence;
  std::vector<Low> lows = levels_in(in, windows);
  const std::optional<uint64_t> usual =
      kind == MarkKind::kSequence ? LowPlaces(in, windows, lows).usual() : std::nullopt;
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
  if (kind != MarkKind::kAnnotation && is_unfinished(lows, left, rest)) ranges.pop_back();
  leave_out_setup(&ranges);
  return ranges;
}

}  // namespace vram::explain
