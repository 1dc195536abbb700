#include "watch/history/steps.hpp"

#include "watch/history/rows.hpp"

#include <algorithm>

namespace vram::watch {
namespace {

// Times in files may be anything; none of ours is further than this from its chunk's beginning.
constexpr int64_t kMaxOffsetMs = int64_t{1} << 40;

// Calls use(time_ms, row) for each known row in the plan's time.
template <typename Use>
Result<> for_each_row(const QueryPlan& plan, int64_t begin_s, std::span<const uint8_t> bytes,
                      uint32_t metric, Use use) {
  const auto chunk = decode(bytes, metric);
  if (!chunk) return tl::unexpected(chunk.error());
  if (chunk->columns.empty()) return {};
  for (size_t i = 0; i < chunk->times_ms.size(); ++i) {
    const Sums& row = chunk->columns.front().rows[i];
    const int64_t since_ms = chunk->times_ms[i];
    if (row.count == 0 || since_ms > kMaxOffsetMs || since_ms < -kMaxOffsetMs) continue;
    const int64_t time_ms = begin_s * 1000 + since_ms;
    if (time_ms >= plan.from_ms && time_ms < plan.to_ms) use(time_ms, row);
  }
  return {};
}

}  // namespace

Result<> Steps::add(const QueryPlan& plan, int64_t begin_s, std::span<const uint8_t> bytes,
                    uint32_t metric) {
  auto total = totals_.end();
  return for_each_row(plan, begin_s, bytes, metric, [&](int64_t time_ms, const Sums& row) {
    const int64_t step = floor_to(time_ms, plan.step_ms);
    if (total == totals_.end() || total->first != step) total = totals_.try_emplace(step).first;
    total->second.sum += static_cast<double>(row.sum);
    total->second.minimum = std::min(total->second.minimum, row.minimum);
    total->second.maximum = std::max(total->second.maximum, row.maximum);
    total->second.count += row.count;
  });
}

Result<std::optional<int64_t>> highest(const QueryPlan& plan, int64_t begin_s,
                                       std::span<const uint8_t> bytes, uint32_t metric) {
  std::optional<int64_t> found;
  const auto read = for_each_row(plan, begin_s, bytes, metric, [&](int64_t, const Sums& row) {
    found = std::max(found.value_or(row.maximum), row.maximum);
  });
  if (!read) return tl::unexpected(read.error());
  return found;
}

std::vector<HistoryPoint> Steps::points() const {
  std::vector<HistoryPoint> points;
  points.reserve(totals_.size());
  for (const auto& [step_ms, total] : totals_)
    points.push_back({step_ms * 1'000'000, total.sum / static_cast<double>(total.count),
                      static_cast<double>(total.minimum), static_cast<double>(total.maximum),
                      total.count});
  return points;
}

}  // namespace vram::watch
