// Reading the history: the rows of the file and what is not in it yet, added up by steps. A
// connection of its own for each question, so neither the writer nor other readers wait for it, and
// it takes memory only while it is asked.
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

// What the history has in memory, taken before the file is read. Ids only grow, so the file's rows
// with ids above the last, which are of later than that, can be left out.
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
