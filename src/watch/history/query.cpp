#include "watch/history/query.hpp"

#include "watch/history/database.hpp"
#include "watch/history/steps.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace vram::watch {
namespace {

constexpr size_t kMostPoints = 100'000;       // of an answer
constexpr size_t kMostStepsRead = 1'000'000;  // until the processes to show are chosen

Error too_many() {
  return {Code::kTooLarge, fmt::format("the answer has more than {} points: ask for longer steps, "
                                       "less time or one device",
                                       kMostPoints)};
}

// What both questions share: the connection, what to leave out of the file since memory has it
// newer, and what could not be read.
class Reading {
 public:
  Reading(const QueryPlan& plan, uint32_t metric, const Unwritten& unwritten)
      : plan_(plan), metric_(metric), unwritten_(unwritten) {
    for (const auto& row : unwritten.chunks) newer_.insert(row->id);
  }

  Result<> open(const std::string& path, const char* sql) {
    auto database = Database::open(path, true);
    if (!database) return tl::unexpected(database.error());
    database_ = std::move(*database);
    auto statement = database_.prepare(sql);
    if (!statement) return tl::unexpected(statement.error());
    statement_ = std::move(*statement);
    return {};
  }

  // The device's rows that are in the plan: id, begin_s, samples, and what the caller asks besides.
  // steps_of(statement) and steps_of(row) say where they are added up.
  template <typename StepsOf>
  Result<> read(const DeviceRow& device, StepsOf steps_of) {
    const Grain& grain = kGrains[plan_.grain];
    statement_.bind(1, device.id).bind(2, plan_.from_ms / 1000 - grain.span_s);
    statement_.bind(3, plan_.to_ms / 1000 + 1).bind(4, grain.grain_s);
    auto row = statement_.step();
    for (; row && *row; row = statement_.step()) {
      const int64_t id = statement_.number(0);
      if (id > unwritten_.last_chunk_id || newer_.contains(id)) continue;
      add(steps_of(statement_), statement_.number(1), statement_.bytes(2));
      if (steps_read_ > kMostStepsRead) return tl::unexpected(too_many());
    }
    statement_.reset();
    if (!row) return tl::unexpected(row.error());
    for (const auto& chunk : unwritten_.chunks)
      if (chunk->device->id == device.id) add(steps_of(*chunk), chunk->begin_s, chunk->bytes);
    return {};
  }

  [[nodiscard]] uint64_t unreadable() const { return unreadable_; }
  [[nodiscard]] Database& database() { return database_; }

 private:
  void add(Steps& steps, int64_t begin_s, std::span<const uint8_t> bytes) {
    const size_t before = steps.size();
    if (!steps.add(plan_, begin_s, bytes, metric_)) ++unreadable_;
    steps_read_ += steps.size() - before;
  }

  const QueryPlan& plan_;
  uint32_t metric_;
  const Unwritten& unwritten_;
  std::unordered_set<int64_t> newer_;
  Database database_;
  Statement statement_;
  uint64_t unreadable_ = 0;
  size_t steps_read_ = 0;
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
std::vector<int64_t> highest(const StepsById& all, size_t most) {
  std::vector<std::pair<int64_t, int64_t>> peaks;
  for (const auto& [id, steps] : all)
    if (steps.size() > 0) peaks.emplace_back(-steps.highest(), id);
  std::ranges::sort(peaks);
  if (peaks.size() > most) peaks.resize(most);
  std::vector<int64_t> ids;
  for (const auto& [peak, id] : peaks) ids.push_back(id);
  return ids;
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
    auto statement = database_.prepare(
        "SELECT pid, start_ticks, user, command, container, pod, slurm_job FROM process "
        "WHERE id=?1");
    if (!statement) return tl::unexpected(statement.error());
    statement->bind(1, id);
    auto row = statement->step();
    if (!row) return tl::unexpected(row.error());
    return *row ? process_of(*statement) : HistoryProcess();
  }

 private:
  Database& database_;
  std::unordered_map<int64_t, HistoryProcess> known_;
};

}  // namespace

Result<std::vector<DeviceRow>> read_devices(const std::string& path,
                                            const std::optional<std::string>& key,
                                            const Unwritten& unwritten) {
  auto database = Database::open(path, true);
  if (!database) return tl::unexpected(database.error());
  auto statement = database->prepare("SELECT id, key, name, place, total_bytes FROM device");
  if (!statement) return tl::unexpected(statement.error());
  std::map<std::string, DeviceRow> devices;
  auto row = statement->step();
  for (; row && *row; row = statement->step()) {
    DeviceRow device{statement->number(0),
                     {statement->text(1).value_or(""), statement->text(2).value_or(""),
                      static_cast<uint32_t>(statement->number(3)), std::nullopt}};
    if (const auto total = statement->number_if_any(4))
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
  auto devices = read_devices(path, device, unwritten);
  if (!devices) return tl::unexpected(devices.error());
  Reading reading(plan, metric, unwritten);
  auto opened = reading.open(path,
                             "SELECT id, begin_s, samples FROM device_chunk WHERE device=?1 AND "
                             "begin_s>=?2 AND begin_s<?3 AND grain_s=?4");
  if (!opened) return tl::unexpected(opened.error());
  SeriesAnswer answer;
  size_t points = 0;
  for (const DeviceRow& row : *devices) {
    Steps steps;
    auto read = reading.read(row, [&steps](const auto&) -> Steps& { return steps; });
    if (!read) return tl::unexpected(read.error());
    points += steps.size();
    if (points > kMostPoints) return tl::unexpected(too_many());
    answer.answer.push_back({row.device, plan.step_ms * 1'000'000, steps.points()});
  }
  answer.unreadable = reading.unreadable();
  return answer;
}

Result<ProcessesAnswer> read_processes(const std::string& path, const ProcessQuery& query,
                                       const Unwritten& unwritten) {
  const QueryPlan plan = plan_query(query);
  auto devices = read_devices(path, query.device, unwritten);
  if (!devices) return tl::unexpected(devices.error());
  Reading reading(plan, kUsedBytes, unwritten);
  auto opened = reading.open(path,
                             "SELECT id, begin_s, samples, process FROM process_chunk WHERE "
                             "device=?1 AND begin_s>=?2 AND begin_s<?3 AND ?4>0");
  if (!opened) return tl::unexpected(opened.error());
  ProcessNames names(reading.database(), unwritten);
  ProcessesAnswer answer;
  size_t points = 0;
  for (const DeviceRow& row : *devices) {
    StepsById all;
    struct StepsOf {
      Steps& operator()(const Statement& written) const { return all[written.number(3)]; }
      Steps& operator()(const ChunkRow& chunk) const { return all[chunk.process->id]; }
      StepsById& all;
    };
    auto read = reading.read(row, StepsOf{all});
    if (!read) return tl::unexpected(read.error());
    for (const int64_t id : highest(all, query.most)) {
      auto process = names.of(id);
      if (!process) return tl::unexpected(process.error());
      points += all[id].size();
      if (points > kMostPoints) return tl::unexpected(too_many());
      answer.answer.push_back(
          {std::move(*process), row.device, plan.step_ms * 1'000'000, all[id].points()});
    }
  }
  answer.unreadable = reading.unreadable();
  return answer;
}

}  // namespace vram::watch
