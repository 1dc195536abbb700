#include "watch/history/steps.hpp"

#include "watch/history/rows.hpp"

#include <algorithm>

namespace vram::watch {
namespace {

// Times in files may be anything; none of ours is further than this from its chunk's beginning.
constexpr int64_t kFurthestMs = int64_t{1} << 40;

}  // namespace

Result<> Steps::add(const QueryPlan& plan, int64_t begin_s, std::span<const uint8_t> bytes,
                    uint32_t metric) {
  auto chunk = decode(bytes, metric);
  if (!chunk) return tl::unexpected(chunk.error());
  if (chunk->columns.empty()) return {};
  auto total = totals_.end();
  for (size_t i = 0; i < chunk->times_ms.size(); ++i) {
    const Sums& row = chunk->columns.front().rows[i];
    const int64_t since_ms = chunk->times_ms[i];
    if (row.count == 0 || since_ms > kFurthestMs || since_ms < -kFurthestMs) continue;
    const int64_t time_ms = begin_s * 1000 + since_ms;
    if (time_ms < plan.from_ms || time_ms >= plan.to_ms) continue;
    const int64_t step = floor_to(time_ms, plan.step_ms);
    if (total == totals_.end() || total->first != step) total = totals_.try_emplace(step).first;
    total->second.sum += static_cast<double>(row.sum);
    total->second.minimum = std::min(total->second.minimum, row.minimum);
    total->second.maximum = std::max(total->second.maximum, row.maximum);
    total->second.count += row.count;
    highest_ = std::max(highest_, row.maximum);
  }
  return {};
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
