// Queries of the history: rows of the file and unwritten data, aggregated by steps. Each query has
// its own connection, so neither the writer nor other readers wait for it, and it uses memory only
// while it runs.
#pragma once

#include "watch/history/metrics.hpp"
#include "watch/history/plan.hpp"
#include "watch/history/rows.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::watch {

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

}  // namespace vram::watch
