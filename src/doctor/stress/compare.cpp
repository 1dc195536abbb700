#include "doctor/stress/compare.hpp"

#include <algorithm>
#include <cmath>

namespace vram::doctor {
namespace {

// A clock that counts in steps and a machine that does other things: less is never a change.
constexpr double kMinNoise = 0.01;

double span_of(const Figure& figure) {
  if (figure.median == 0) return 0;
  return static_cast<double>(figure.three_quarters - figure.quarter) /
         static_cast<double>(figure.median);
}

// As std::hypot, which would ask for a C library of 2022.
double root_of_squares(double one, double other) { return std::sqrt(one * one + other * other); }

// What is worse when it is less; latencies are worse when they are more.
bool is_better_high(Unit unit) { return unit != Unit::kNanoseconds; }

Trend trend_of(const Change& change, double limit) {
  if (std::abs(change.worse) <= change.noise) return Trend::kSame;
  if (change.worse < 0) return Trend::kBetter;
  return change.worse > limit ? Trend::kFailing : Trend::kWorse;
}

Change change_of(const Figure& before, const Figure& after, double limit) {
  Change change{.name = after.name,
                .size_bytes = after.size_bytes,
                .unit = after.unit,
                .before = before.median,
                .after = after.median};
  const auto was = static_cast<double>(before.median);
  const double difference = static_cast<double>(after.median) - was;
  change.worse = (is_better_high(after.unit) ? -difference : difference) / was;
  change.noise = std::max(kMinNoise, root_of_squares(span_of(before), span_of(after)));
  change.trend = trend_of(change, limit);
  return change;
}

const Figure* find(const std::vector<Figure>& figures, const Figure& like) {
  const auto found = std::ranges::find_if(figures, [&](const Figure& figure) {
    return figure.name == like.name && figure.size_bytes == like.size_bytes &&
           figure.unit == like.unit;
  });
  return found == figures.end() ? nullptr : &*found;
}

std::string text_or_dash(const std::optional<std::string>& text) { return text.value_or("-"); }

}  // namespace

bool Comparison::is_failing() const {
  return std::ranges::any_of(changes,
                             [](const Change& change) { return change.trend == Trend::kFailing; });
}

Result<Comparison> compare(const StressReport& before, const StressReport& after, double limit) {
  if (!after.device.uuid || before.device.uuid != after.device.uuid) {
    return fail(Code::kBadInput,
                "expected a report of this GPU ({}), found one of {}: figures of different GPUs "
                "can't be compared",
                text_or_dash(after.device.uuid), text_or_dash(before.device.uuid));
  }
  Comparison comparison{.before_time_ns = before.time_ns, .limit = limit};
  for (const Figure& old : before.figures) {
    const Figure* const now = find(after.figures, old);
    if (now == nullptr) {
      comparison.not_measured.push_back(old.name);
    } else if (old.median != 0) {
      comparison.changes.push_back(change_of(old, *now, limit));
    }
  }
  std::ranges::sort(comparison.changes, std::ranges::greater(), &Change::worse);
  return comparison;
}

}  // namespace vram::doctor
