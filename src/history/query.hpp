// Queries of the history: rows of the file and unwritten data, aggregated by steps. Each query has
// its own connection, so neither the writer nor other readers wait for it, and it uses memory only
// while it runs.
#pragma once

#include "base/result.hpp"
#include "history/chunk.hpp"
#include "history/history.hpp"
#include "history/metrics.hpp"
#include "history/series.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vram::history {

// How a question to the history is answered: by which grain, from when, in steps of what length.
// Pure functions.

struct QueryScope {
  HistoryKeep keep;
  std::optional<int64_t> oldest_ns;
  std::optional<int64_t> newest_ns;
};

struct QueryPlan {
  size_t grain = 0;     // place in kGrains
  int64_t from_ms = 0;  // a multiple of the step
  int64_t to_ms = 0;    // exclusive
  int64_t step_ms = 1;  // a multiple of the grain
};

// The coarsest grain that the step allows; a coarser one, and a longer step with it, where finer
// ones are not kept for as long.
[[nodiscard]] QueryPlan plan_query(const HistoryQuery& query, const QueryScope& scope);
[[nodiscard]] QueryPlan plan_query(const ProcessQuery& query);

// The unwritten data, copied before the file is read. Ids only increase: rows of the file with ids
// above last_chunk_id were written later and are ignored.
struct Unwritten {
  ChunkRows chunks;
  int64_t last_chunk_id = 0;
  std::vector<std::shared_ptr<const DeviceRow>> devices;
};

template <typename Answer>
struct Answered {
  Answer answer;
  uint64_t unreadable = 0;  // chunks that were left out
};

using SeriesAnswer = Answered<std::vector<Series>>;
using ProcessesAnswer = Answered<std::vector<ProcessSeries>>;
using HoldersAnswer = Answered<std::vector<HistoryHolder>>;

[[nodiscard]] Result<SeriesAnswer> read_series(const std::string& path, uint32_t metric,
                                               const std::optional<std::string>& device,
                                               const QueryPlan& plan, const Unwritten& unwritten);
[[nodiscard]] Result<ProcessesAnswer> read_processes(const std::string& path,
                                                     const ProcessQuery& query,
                                                     const Unwritten& unwritten);
[[nodiscard]] Result<HoldersAnswer> read_holders(const std::string& path, const ProcessQuery& query,
                                                 const Unwritten& unwritten);
// By key; all, or the one with this key.
[[nodiscard]] Result<std::vector<DeviceRow>> read_devices(const std::string& path,
                                                          const std::optional<std::string>& key,
                                                          const Unwritten& unwritten);

// Steps: rows of chunks added up into steps of equal length, those without a sample left out.
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

}  // namespace vram::history
