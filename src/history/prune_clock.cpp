#include "history/prune_clock.hpp"

#include "base/time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace vram::history {
namespace {

// Nothing is thrown away by a clock that jumped within the last hour: it may jump back.
constexpr int64_t kJumpNs = 60 * kSignedSecondNs;
constexpr int64_t kSteadyNs = 3600 * kSignedSecondNs;
constexpr int64_t kLeapS = 24 * 3600;
constexpr size_t kMaxLeaps = 32;  // of more the smallest is forgotten

}  // namespace

PruneClock::PruneClock(std::chrono::nanoseconds period, const std::string& saved,
                       std::optional<int64_t> newest_s)
    : period_ns_(period.count()) {
  constexpr int64_t kLatestS = INT64_MAX / kSignedSecondNs - 1;
  std::istringstream text(saved);
  int64_t saved_s = 0;
  const auto seen_s = text >> saved_s ? std::optional(saved_s) : newest_s;
  if (seen_s) wall_ns_ = std::clamp<int64_t>(*seen_s, 0, kLatestS) * kSignedSecondNs;
  for (ClockLeap each; leaps_.size() < kMaxLeaps && text >> each.after_s >> each.by_s;) {
    if (each.by_s > 0 && each.by_s < kLatestS) leaps_.push_back(each);
  }
}

std::string PruneClock::save() const {
  std::string text = wall_ns_ ? fmt::format("{}", *wall_ns_ / kSignedSecondNs) : "";
  for (const ClockLeap& each : leaps_) text += fmt::format(" {} {}", each.after_s, each.by_s);
  return text;
}

// A correction, of the last leap first.
void PruneClock::take_back(int64_t by_s) {
  while (!leaps_.empty() && by_s > 0) {
    const int64_t taken = std::min(by_s, leaps_.back().by_s);
    by_s -= taken;
    leaps_.back().by_s -= taken;
    if (leaps_.back().by_s > kLeapS) break;
    leaps_.pop_back();
  }
}

std::optional<ClockLeap> PruneClock::find_leap(int64_t by_ns) {
  const int64_t by_s = by_ns / kSignedSecondNs;
  if (by_s < -kLeapS) take_back(-by_s);
  if (by_s <= kLeapS) return std::nullopt;
  const ClockLeap leap{*wall_ns_ / kSignedSecondNs, by_s};
  leaps_.push_back(leap);
  if (leaps_.size() > kMaxLeaps)
    leaps_.erase(std::ranges::min_element(leaps_, {}, &ClockLeap::by_s));
  return leap;
}

std::optional<ClockLeap> PruneClock::see(int64_t wall_ns, int64_t steady_ns) {
  std::optional<ClockLeap> found;
  if (wall_ns_) {
    const int64_t passed_ns = steady_ns - steady_ns_.value_or(steady_ns);
    const int64_t by_ns = wall_ns - *wall_ns_ - passed_ns;
    if (steady_ns_ && std::abs(by_ns) > kJumpNs) due_ns_ = std::max(due_ns_, steady_ns + kSteadyNs);
    found = find_leap(by_ns);
  }
  if (!steady_ns_) due_ns_ = steady_ns + period_ns_;
  wall_ns_ = wall_ns;
  steady_ns_ = steady_ns;
  return found;
}

std::optional<int64_t> PruneClock::take() {
  if (!steady_ns_ || *steady_ns_ < due_ns_) return std::nullopt;
  due_ns_ = *steady_ns_ + period_ns_;
  return wall_ns_;
}

}  // namespace vram::history
