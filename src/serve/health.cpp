#include "serve/health.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::serve {
namespace {

using std::chrono::nanoseconds;

// A busy machine delays a look now and then: that is no reason to page anybody.
constexpr nanoseconds kMinStaleAge = std::chrono::seconds(2);
constexpr int kMissedPeriods = 3;

std::string time_text(uint64_t ns) { return format_duration_ns(static_cast<int64_t>(ns)); }

std::string stale_text(uint64_t age_ns, uint64_t overdue_ns, nanoseconds period) {
  std::string age = fmt::format("the last sample of the GPUs started {} ago, expected one every {}",
                                time_text(age_ns), format_duration_ns(period.count()));
  if (overdue_ns == 0) return age;
  return fmt::format("{}; the one under way is {} late: a call of the driver hangs, see dmesg", age,
                     time_text(overdue_ns));
}

std::string_view word_of(Freshness freshness) {
  if (freshness == Freshness::kFresh) return "ok";
  return freshness == Freshness::kStale ? "stale" : "starting";
}

}  // namespace

Health health_of(const watch::Sampled* sampled, const SampleFeed& feed) {
  const uint64_t overdue_ns = feed.overdue_ns();
  if (sampled == nullptr) {
    const std::string late =
        overdue_ns == 0 ? "" : fmt::format("; it is {} late", time_text(overdue_ns));
    return {.age_ns = std::nullopt,
            .why = fmt::format("the first sample of the GPUs has not finished yet{}", late)};
  }
  const uint64_t now_ns = feed.now_ns();
  const uint64_t age_ns = now_ns > sampled->begin_ns ? now_ns - sampled->begin_ns : 0;
  const auto timeout = std::max(kMissedPeriods * feed.period, kMinStaleAge);
  if (age_ns <= static_cast<uint64_t>(timeout.count()))
    return {.freshness = Freshness::kFresh, .age_ns = age_ns, .why = ""};
  return {.freshness = Freshness::kStale,
          .age_ns = age_ns,
          .why = stale_text(age_ns, overdue_ns, feed.period)};
}

std::string health_json(const Health& health, const watch::Sampled* sampled,
                        const SampleFeed& feed) {
  const Json document = {
      {"schema", "vram.health/1"},
      {"status", word_of(health.freshness)},
      {"why", health.why.empty() ? Json() : Json(health.why)},
      {"time_unix_ns", sampled == nullptr ? Json() : Json(sampled->snapshot.time_ns)},
      {"age_ns", health.age_ns ? Json(*health.age_ns) : Json()},
      {"period_ns", feed.period.count()},
      {"look_ns", sampled == nullptr ? Json() : Json(sampled->sample_duration_ns)},
      {"looks", sampled == nullptr ? 0 : sampled->number}};
  return document.dump(2, ' ', true) + "\n";
}

}  // namespace vram::serve
