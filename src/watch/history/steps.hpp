// Steps: rows of chunks added up into steps of equal length, those without a sample left out.
#pragma once

#include "base/result.hpp"
#include "watch/history/chunk.hpp"
#include "watch/history/plan.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace vram::watch {

class Steps {
 public:
  // Bad bytes change nothing.
  [[nodiscard]] Result<> add(const QueryPlan& plan, int64_t begin_s, std::span<const uint8_t> bytes,
                             uint32_t metric);
  [[nodiscard]] size_t size() const { return totals_.size(); }
  [[nodiscard]] std::vector<HistoryPoint> points() const;

 private:
  struct Total {
    double sum = 0;
    int64_t minimum = INT64_MAX;
    int64_t maximum = INT64_MIN;
    uint64_t count = 0;
  };
  std::map<int64_t, Total> totals_;  // by the step's beginning, in ms
};

// The highest value among the rows that Steps would take; nothing: it would take none.
[[nodiscard]] Result<std::optional<int64_t>> highest(const QueryPlan& plan, int64_t begin_s,
                                                     std::span<const uint8_t> bytes,
                                                     uint32_t metric);

}  // namespace vram::watch
