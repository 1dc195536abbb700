#include "history/query.hpp"

#include "base/result.hpp"
#include "history/database.hpp"
#include "history/series.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace vram::history {
namespace {

constexpr size_t kMaxPoints = 100'000;  // of an answer

Error too_many() {
  return {Code::kTooLarge, fmt::format("the answer has more than {} points: ask for longer steps, "
                                       "less time or one device",
                                       kMaxPoints)};
}

constexpr const char* kProcessRows =
    "SELECT id, begin_s, samples, process FROM process_chunk WHERE device=?1 AND begin_s>=?2 AND "
    "begin_s<?3 AND ?4>0";

// What all questions share: the connection, and what to leave out of the file since memory has it
// newer.
class Reading {
 public:
  Reading(const QueryPlan& plan, const Unwritten& unwritten) : plan_(plan), unwritten_(unwritten) {
    for (const auto& row : unwritten.chunks) newer_.insert(row->id);
  }

  Result<> open(const std::string& path, const char* sql) {
    VRAM_TRY_ASSIGN(auto database, Database::open(path, true));
    database_ = std::move(database);
    VRAM_TRY_ASSIGN(auto statement, database_.prepare(sql));
    statement_ = std::move(statement);
    return {};
  }

  // Calls use(process, begin_s, samples) for each of the device's rows in the plan; `process` is 0
  // where the rows are the device's own. The error of `use` ends it.
  template <typename Use>
  Result<> read(const DeviceRow& device, Use use) {
    const Grain& grain = kGrains[plan_.grain];
    statement_.bind(1, device.id).bind(2, plan_.from_ms / 1000 - grain.span_s);
    statement_.bind(3, plan_.to_ms / 1000 + 1).bind(4, grain.grain_s);
    Result<> used;
    auto row = statement_.step();
    for (; used && row && *row; row = statement_.step()) {
      const int64_t id = statement_.number(0);
      if (id > unwritten_.last_chunk_id || newer_.contains(id)) continue;
      used = use(statement_.number(3), statement_.number(1), statement_.bytes(2));
    }
    statement_.reset();
    if (!row) return tl::unexpected(row.error());
    for (const auto& chunk : unwritten_.chunks)
      if (used && chunk->device->id == device.id)
        used = use(chunk->process ? chunk->process->id : 0, chunk->begin_s, chunk->bytes);
    return used;
  }

  [[nodiscard]] Database& database() { return database_; }

 private:
  const QueryPlan& plan_;
  const Unwritten& unwritten_;
  std::unordered_set<int64_t> newer_;
  Database database_;
  Statement statement_;
};

HistoryProcess process_of(const Statement& row) {
  HistoryProcess process;
  process.pid = static_cast<uint32_t>(row.number(0));
  if (const auto start = row.number_if_any(1)) process.start_ticks = static_cast<uint64_t>(*start);
  process.user = row.text(2);
  process.command = row.text(3);
  process.container = row.text(4);
  process.pod = row.text(5);
  process.slurm_job = row.text(6);
  return process;
}

using StepsById = std::unordered_map<int64_t, Steps>;

// Ids of the processes with the highest peaks, highest first.
Result<std::vector<int64_t>> highest_ids(Reading& reading, const DeviceRow& device,
                                         const QueryPlan& plan, size_t limit,
                                         uint64_t& unreadable) {
  std::unordered_map<int64_t, int64_t> peaks;
  const auto visit = [&](int64_t id, int64_t begin_s, std::span<const uint8_t> bytes) -> Result<> {
    const auto peak = highest(plan, begin_s, bytes, kUsedBytes);
    if (!peak) ++unreadable;
    if (!peak || !*peak) return {};
    int64_t& known = peaks.try_emplace(id, **peak).first->second;
    known = std::max(known, **peak);
    return {};
  };
  VRAM_TRY(reading.read(device, visit));
  std::vector<std::pair<int64_t, int64_t>> order;
  for (const auto& [id, peak] : peaks) order.emplace_back(-peak, id);
  std::ranges::sort(order);
  if (order.size() > limit) order.resize(limit);
  std::vector<int64_t> ids;
  for (const auto& [peak, id] : order) ids.push_back(id);
  return ids;
}

// A reading after the one that has chosen the processes: what takes memory are the steps of those,
// not of all that ever ran.
Result<StepsById> steps_of(Reading& reading, const DeviceRow& device, const QueryPlan& plan,
                           const std::vector<int64_t>& ids) {
  StepsById all;
  for (const int64_t id : ids) all.try_emplace(id);
  size_t points = 0;
  const auto add = [&](int64_t id, int64_t begin_s, std::span<const uint8_t> bytes) -> Result<> {
    const auto found = all.find(id);
    if (found == all.end()) return {};
    points -= found->second.size();
    (void)found->second.add(plan, begin_s, bytes, kUsedBytes);  // unreadable: the first found it
    points += found->second.size();
    if (points > kMaxPoints) return tl::unexpected(too_many());
    return {};
  };
  VRAM_TRY(reading.read(device, add));
  return all;
}

// Facts of processes by id: from memory if they are there, else from the file.
class ProcessNames {
 public:
  ProcessNames(Database& database, const Unwritten& unwritten) : database_(database) {
    for (const auto& row : unwritten.chunks)
      if (row->process) known_[row->process->id] = row->process->process;
  }
  Result<HistoryProcess> of(int64_t id) {
    const auto known = known_.find(id);
    if (known != known_.end()) return known->second;
    VRAM_TRY_ASSIGN(
        auto statement,
        database_.prepare(
            "SELECT pid, start_ticks, user, command, container, pod, slurm_job FROM process "
            "WHERE id=?1"));
    statement.bind(1, id);
    VRAM_TRY_ASSIGN(auto row, statement.step());
    return row ? process_of(statement) : HistoryProcess();
  }

 private:
  Database& database_;
  std::unordered_map<int64_t, HistoryProcess> known_;
};

}  // namespace

Result<std::vector<DeviceRow>> read_devices(const std::string& path,
                                            const std::optional<std::string>& key,
                                            const Unwritten& unwritten) {
  VRAM_TRY_ASSIGN(auto database, Database::open(path, true));
  VRAM_TRY_ASSIGN(auto statement,
                  database.prepare("SELECT id, key, name, place, total_bytes FROM device"));
  std::map<std::string, DeviceRow> devices;
  auto row = statement.step();
  for (; row && *row; row = statement.step()) {
    DeviceRow device{statement.number(0),
                     {statement.text(1).value_or(""), statement.text(2).value_or(""),
                      static_cast<uint32_t>(statement.number(3)), std::nullopt}};
    if (const auto total = statement.number_if_any(4))
      device.device.total_bytes = static_cast<uint64_t>(*total);
    devices[device.device.key] = std::move(device);
  }
  if (!row) return tl::unexpected(row.error());
  for (const auto& device : unwritten.devices) devices[device->device.key] = *device;
  std::vector<DeviceRow> rows;
  for (auto& [name, device] : devices)
    if (!key || *key == name) rows.push_back(std::move(device));
  if (key && rows.empty())
    return fail(Code::kNotFound, "the history has no device '{}': ask for one of its devices",
                *key);
  return rows;
}

Result<SeriesAnswer> read_series(const std::string& path, uint32_t metric,
                                 const std::optional<std::string>& device, const QueryPlan& plan,
                                 const Unwritten& unwritten) {
  VRAM_TRY_ASSIGN(auto devices, read_devices(path, device, unwritten));
  Reading reading(plan, unwritten);
  VRAM_TRY(reading.open(path,
                        "SELECT id, begin_s, samples, 0 FROM device_chunk WHERE device=?1 AND "
                        "begin_s>=?2 AND begin_s<?3 AND grain_s=?4"));
  SeriesAnswer answer;
  size_t points = 0;
  for (const DeviceRow& row : devices) {
    Steps steps;
    const auto add = [&](int64_t, int64_t begin_s, std::span<const uint8_t> bytes) -> Result<> {
      if (!steps.add(plan, begin_s, bytes, metric)) ++answer.unreadable;
      if (points + steps.size() > kMaxPoints) return tl::unexpected(too_many());
      return {};
    };
    VRAM_TRY(reading.read(row, add));
    points += steps.size();
    answer.answer.push_back({row.device, plan.step_ms * 1'000'000, steps.points()});
  }
  return answer;
}

Result<ProcessesAnswer> read_processes(const std::string& path, const ProcessQuery& query,
                                       const Unwritten& unwritten) {
  const QueryPlan plan = plan_query(query);
  VRAM_TRY_ASSIGN(auto devices, read_devices(path, query.device, unwritten));
  Reading reading(plan, unwritten);
  VRAM_TRY(reading.open(path, kProcessRows));
  ProcessNames names(reading.database(), unwritten);
  ProcessesAnswer answer;
  size_t points = 0;
  for (const DeviceRow& row : devices) {
    auto ids = query.only;
    if (ids.empty()) {
      VRAM_TRY_ASSIGN(auto found, highest_ids(reading, row, plan, query.limit, answer.unreadable));
      ids = std::move(found);
    }
    VRAM_TRY_ASSIGN(auto all, steps_of(reading, row, plan, ids));
    for (const int64_t id : ids) {
      const Steps& steps = all.at(id);
      points += steps.size();
      if (points > kMaxPoints) return tl::unexpected(too_many());
      if (steps.size() == 0) continue;
      VRAM_TRY_ASSIGN(auto process, names.of(id));
      answer.answer.push_back(
          {std::move(process), row.device, plan.step_ms * 1'000'000, steps.points()});
      all.erase(id);
    }
  }
  return answer;
}

Result<HoldersAnswer> read_holders(const std::string& path, const ProcessQuery& query,
                                   const Unwritten& unwritten) {
  const QueryPlan plan = plan_query(query);
  VRAM_TRY_ASSIGN(auto devices, read_devices(path, query.device, unwritten));
  Reading reading(plan, unwritten);
  VRAM_TRY(reading.open(path, kProcessRows));
  HoldersAnswer answer;
  for (const DeviceRow& row : devices) {
    VRAM_TRY_ASSIGN(const auto ids,
                    highest_ids(reading, row, plan, query.limit, answer.unreadable));
    for (const int64_t id : ids) answer.answer.push_back({row.device, id});
  }
  return answer;
}

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

namespace {

// Times in files may be anything; none of ours is further than this from its chunk's beginning.
constexpr int64_t kMaxOffsetMs = int64_t{1} << 40;

// Calls use(time_ms, row) for each known row in the plan's time.
template <typename Use>
Result<> for_each_row(const QueryPlan& plan, int64_t begin_s, std::span<const uint8_t> bytes,
                      uint32_t metric, Use use) {
  VRAM_TRY_ASSIGN(const auto chunk, decode(bytes, metric));
  if (chunk.columns.empty()) return {};
  for (size_t i = 0; i < chunk.times_ms.size(); ++i) {
    const Sums& row = chunk.columns.front().rows[i];
    const int64_t since_ms = chunk.times_ms[i];
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
  VRAM_TRY(for_each_row(plan, begin_s, bytes, metric, [&](int64_t, const Sums& row) {
    found = std::max(found.value_or(row.maximum), row.maximum);
  }));
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

}  // namespace vram::history
