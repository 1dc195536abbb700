#include "alerts/judge/trend.hpp"

#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace vram::alerts {
namespace {

constexpr uint64_t kParts = 60;          // of a window
constexpr uint64_t kEarlierWindows = 4;  // that are remembered by their heights
constexpr size_t kMinCount = kParts / 2;
constexpr double kMaxFall = 0.25;  // of the growth

double as_double(uint64_t value) { return static_cast<double>(value); }

// Bytes per part, over floors [first, end); there are at least two.
template <typename Floors>
double slope_of(const Floors& floors, size_t first, size_t end) {
  std::vector<Point> points;
  for (size_t i = first; i < end; ++i)
    points.push_back({as_double(floors[i].part), as_double(floors[i].bytes)});
  return theil_sen(points);
}

}  // namespace

Trend::Trend(uint64_t window_ns, uint64_t at_least_bytes)
    : Trend(window_ns, at_least_bytes, Seen()) {}

Trend::Trend(uint64_t window_ns, uint64_t at_least_bytes, Seen seen)
    : part_ns_(std::max<uint64_t>(window_ns / kParts, 1)),
      at_least_bytes_(at_least_bytes),
      seen_(std::move(seen)) {
  judge();
}

bool Trend::is_possible(const Seen& seen) {
  std::optional<uint64_t> last;
  const auto comes_after = [&](const Floor& floor) {
    const bool is_later = !last || floor.part > *last;
    last = floor.part;
    return is_later;
  };
  return std::ranges::all_of(seen.earlier, comes_after) &&
         std::ranges::all_of(seen.floors, comes_after) && (!seen.open || comes_after(*seen.open));
}

void Trend::add(uint64_t time_ns, uint64_t bytes) {
  const uint64_t part = time_ns / part_ns_;
  if (seen_.open && part > seen_.open->part) close();
  if (seen_.open) {
    seen_.open->bytes = std::min(seen_.open->bytes, bytes);
  } else {
    seen_.open = Floor{part, bytes};
    forget(part);
    judge();
  }
}

void Trend::close() {
  seen_.floors.push_back(*seen_.open);
  seen_.open.reset();
}

// What is older than the window is remembered by its heights, what is much older not at all.
void Trend::forget(uint64_t part) {
  while (!seen_.floors.empty() && seen_.floors.front().part + kParts < part) {
    const Floor& old = seen_.floors.front();
    while (!seen_.earlier.empty() && seen_.earlier.back().bytes <= old.bytes)
      seen_.earlier.pop_back();
    seen_.earlier.push_back(old);
    seen_.floors.pop_front();
  }
  const uint64_t remembered = kParts * (1 + kEarlierWindows);
  while (!seen_.earlier.empty() && seen_.earlier.front().part + remembered < part)
    seen_.earlier.pop_front();
}

bool Trend::comes_back(double growth_bytes) const {
  const uint64_t now = seen_.floors.back().bytes;
  if (!seen_.earlier.empty() && now < seen_.earlier.front().bytes + at_least_bytes_ / 2)
    return true;
  uint64_t highest = 0;
  uint64_t fall = 0;
  for (const Floor& floor : seen_.floors) {
    highest = std::max(highest, floor.bytes);
    fall = std::max(fall, highest - floor.bytes);
  }
  return as_double(fall) > kMaxFall * growth_bytes;
}

void Trend::judge() {
  growth_ = growth_a_part();
  if (!growth_ || *growth_ <= 0) return;
  *growth_ /= as_double(part_ns_) / 1e9;
  limit_bytes_ = find_limit_bytes();
}

// Slopes fall by the same ratio in the same time, as where each entry of a cache that is missing is
// as likely to come next: what is to come is a geometric series.
double Trend::find_limit_bytes() const {
  const auto& floors = seen_.floors;
  const double first = slope_of(floors, 0, floors.size() / 3);
  const double last = slope_of(floors, floors.size() * 2 / 3, floors.size());
  if (first <= last) return std::numeric_limits<double>::infinity();
  const double parts = as_double(floors.back().part - floors.front().part) * 2 / 3;
  return last * parts / std::log(first / last);
}

std::optional<double> Trend::growth_a_part() const {
  if (seen_.floors.size() < kMinCount) return std::nullopt;
  const Floor& first = seen_.floors.front();
  const Floor& last = seen_.floors.back();
  if (last.bytes < first.bytes + at_least_bytes_) return 0;
  const size_t count = seen_.floors.size();
  const double slope =
      std::min(slope_of(seen_.floors, 0, count), slope_of(seen_.floors, count * 2 / 3, count));
  const double growth_bytes = slope * as_double(last.part - first.part);
  if (growth_bytes <= 0 || growth_bytes < as_double(at_least_bytes_)) return 0;
  return comes_back(growth_bytes) ? 0 : slope;
}

}  // namespace vram::alerts
