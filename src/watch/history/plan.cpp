#include "watch/history/plan.hpp"

#include "watch/history/rows.hpp"

#include <algorithm>
#include <array>

namespace vram::watch {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kLatestMs = INT64_MAX / kNsPerMs - 1;
constexpr int64_t kMaxStepMs = int64_t{1} << 40;

int64_t bounded_ms(int64_t ns) { return std::clamp<int64_t>(ns / kNsPerMs, 0, kLatestMs); }
int64_t step_ms_of(int64_t step_ns) {
  return std::clamp<int64_t>(step_ns / kNsPerMs, 1, kMaxStepMs);
}

// The finest grain that reaches back to from_ms.
size_t finest_grain(int64_t from_ms, const QueryScope& scope) {
  if (!scope.newest_ns) return 0;
  const std::array kept = {scope.keep.samples, scope.keep.minutes, scope.keep.hours};
  const int64_t age_s = (*scope.newest_ns / kNsPerMs - from_ms) / 1000;
  size_t grain = 0;
  while (grain + 1 < kGrains.size() && age_s > kept[grain].count() + kGrains[grain].span_s) ++grain;
  return grain;
}

QueryPlan plan_of(size_t grain, int64_t from_ms, int64_t to_ms, int64_t step_ms) {
  const int64_t grain_ms = kGrains[grain].grain_s * 1000;
  const int64_t step = grain_ms == 0 ? step_ms : floor_to(step_ms + grain_ms - 1, grain_ms);
  return {grain, floor_to(from_ms, step), to_ms, step};
}

}  // namespace

QueryPlan plan_query(const HistoryQuery& query, const QueryScope& scope) {
  const int64_t step_ms = step_ms_of(query.step_ns);
  const int64_t oldest_ms = scope.oldest_ns ? bounded_ms(*scope.oldest_ns) : 0;
  const int64_t from_ms = std::max(bounded_ms(query.from_ns), oldest_ms);
  size_t grain = finest_grain(from_ms, scope);
  while (grain + 1 < kGrains.size() && kGrains[grain + 1].grain_s * 1000 <= step_ms) ++grain;
  return plan_of(grain, from_ms, bounded_ms(query.to_ns), step_ms);
}

QueryPlan plan_query(const ProcessQuery& query) {
  static_assert(kGrains[1].grain_s == kProcessGrain.grain_s);
  return plan_of(1, bounded_ms(query.from_ns), bounded_ms(query.to_ns), step_ms_of(query.step_ns));
}

}  // namespace vram::watch
