#include "history/fold.hpp"

#include <unordered_set>
#include <utility>

namespace vram::history {
namespace {

std::shared_ptr<const ChunkRow> row_of(int64_t id, int64_t begin_s, const Chunk& chunk,
                                       uint64_t samples,
                                       const std::shared_ptr<const DeviceRow>& device,
                                       const std::shared_ptr<const ProcessRow>& process,
                                       int64_t grain_s) {
  return std::make_shared<const ChunkRow>(
      ChunkRow{id, device, process, grain_s, begin_s, encode(chunk, grain_s > 0), samples});
}

}  // namespace

Fold::Fold(FoldStart start, uint64_t max_ready_bytes)
    : start_(std::move(start)), max_ready_bytes_(max_ready_bytes) {}

void Fold::add(const watch::Sampled& sampled) {
  const int64_t time_ms = floor_to(sampled.snapshot.time_ns, 1'000'000) / 1'000'000;
  const int64_t minute = floor_to(time_ms, 60'000) / 60'000;
  if (minute != std::exchange(minute_, minute)) forget_gone(minute);
  DeviceRows devices;
  for (const watch::Device& device : sampled.snapshot.devices)
    devices.push_back(add_device(device, time_ms));
  for (const watch::Process& process : sampled.snapshot.processes)
    add_process(process, devices, time_ms);
}

Fold::DeviceTrack& Fold::track_of(HistoryDevice device) {
  DeviceTrack& track = devices_[device.key];
  if (!track.row || track.row->device != device) {
    const auto [known, is_new] = start_.devices.try_emplace(device.key, start_.last_device_id + 1);
    if (is_new) ++start_.last_device_id;
    track.row = std::make_shared<const DeviceRow>(DeviceRow{known->second, std::move(device)});
  }
  return track;
}

const std::shared_ptr<const DeviceRow>& Fold::add_device(const watch::Device& device,
                                                         int64_t time_ms) {
  HistoryDevice about = history_device(device);
  const auto known = devices_.find(about.key);
  // A device that sleeps or is in trouble does not tell; it did not change.
  if (!about.total_bytes && known != devices_.end())
    about.total_bytes = known->second.row->device.total_bytes;
  const std::string key = about.key;
  DeviceTrack& track = track_of(std::move(about));
  add_row(track, time_ms, values_of(device));
  add_instances(device, key, time_ms);
  return track.row;
}

// Compute instances of one GPU instance share its memory: once each.
void Fold::add_instances(const watch::Device& device, const std::string& key, int64_t time_ms) {
  std::optional<uint32_t> last;
  for (const gpu::MigInstance& instance : device.health.mig_instances) {
    if (std::exchange(last, instance.gpu_instance) == instance.gpu_instance) continue;
    DeviceTrack& track = track_of({fmt::format("{}/mig-{}", key, instance.gpu_instance),
                                   instance.profile.value_or(""), device.identity.index,
                                   instance.memory.total_bytes});
    add_row(track, time_ms, values_of(instance));
  }
}

void Fold::add_row(DeviceTrack& track, int64_t time_ms, const std::vector<MetricValue>& values) {
  if (values.empty()) return;
  for (size_t i = 0; i < kGrains.size(); ++i) {
    Open& open = track.open[i];
    make_room(open, kGrains[i], time_ms, track.row, nullptr);
    for (const auto [number, value] : values) open.chunk.last_of(number).add(Sums::of(value));
  }
}

void Fold::make_room(Open& open, Grain grain, int64_t time_ms,
                     const std::shared_ptr<const DeviceRow>& device,
                     const std::shared_ptr<const ProcessRow>& process) {
  const int64_t begin_ms = floor_to(time_ms, grain.span_s * 1000);
  const int64_t since_ms = time_ms - begin_ms;
  const int64_t row_ms = grain.grain_s == 0 ? since_ms : floor_to(since_ms, grain.grain_s * 1000);
  const bool is_over = open.begin_s != begin_ms / 1000 || open.chunk.times_ms.size() == kMaxRows;
  if (open.id != 0 && is_over) close(open, device, process, grain.grain_s);
  if (open.id == 0) {
    open.id = ++start_.last_chunk_id;
    open.begin_s = begin_ms / 1000;
  }
  std::vector<int64_t>& times_ms = open.chunk.times_ms;
  if (grain.grain_s == 0 || times_ms.empty() || times_ms.back() != row_ms)
    open.chunk.add_row(row_ms);
  open.is_dirty = true;
  if (grain.grain_s == 0) ++open.samples;
}

const Fold::KnownProcess& Fold::known_process(const Shared<watch::ProcessFacts>& facts,
                                              int64_t minute) {
  const int64_t id = process_id(*facts);
  KnownProcess& known = known_processes_[id];
  if (!known.row || !known.facts.is_same(facts)) {
    HistoryProcess process = history_process(*facts);
    if (!known.row || known.row->process != process)
      known.row = std::make_shared<const ProcessRow>(ProcessRow{id, std::move(process)});
    known.facts = facts;
  }
  known.seen_minute = minute;
  return known;
}

void Fold::add_process(const watch::Process& process, const DeviceRows& devices, int64_t time_ms) {
  const KnownProcess& known = known_process(process.facts, minute_);
  for (const watch::Use& use : process.uses) {
    const auto bytes = storable(use.process.used_bytes);
    if (!bytes || use.device >= devices.size()) continue;
    ProcessTrack& track = processes_[{devices[use.device]->id, known.row->id}];
    track.device = devices[use.device];
    track.process = known.row;
    track.seen_minute = minute_;
    make_room(track.open, kProcessGrain, time_ms, track.device, track.process);
    track.open.chunk.last_of(kUsedBytes).add(Sums::of(*bytes));
  }
}

// Those who were not seen in all of the minute before, or, where the clock jumped, since.
void Fold::forget_gone(int64_t minute) {
  const auto is_gone = [minute](int64_t seen) { return seen != minute && seen != minute - 1; };
  for (auto track = processes_.begin(); track != processes_.end();) {
    ProcessTrack& gone = track->second;
    if (!is_gone(gone.seen_minute)) {
      ++track;
      continue;
    }
    close(gone.open, gone.device, gone.process, kProcessGrain.grain_s);
    track = processes_.erase(track);
  }
  std::erase_if(known_processes_,
                [is_gone](const auto& known) { return is_gone(known.second.seen_minute); });
}

void Fold::close(Open& open, const std::shared_ptr<const DeviceRow>& device,
                 const std::shared_ptr<const ProcessRow>& process, int64_t grain_s) {
  if (open.is_dirty) {
    ready_.push_back(
        row_of(open.id, open.begin_s, open.chunk, open.samples, device, process, grain_s));
    ready_bytes_ += ready_.back()->bytes.size();
    drop_oldest();
  }
  open = {};
}

void Fold::drop_oldest() {
  while (ready_bytes_ > max_ready_bytes_ && !ready_.empty()) {
    ready_bytes_ -= ready_.front()->bytes.size();
    dropped_ += ready_.front()->samples;
    ready_.pop_front();
  }
}

template <typename Self, typename Visit>
void Fold::each_open(Self& self, Visit visit) {
  const std::shared_ptr<const ProcessRow> none;
  for (auto& [key, track] : self.devices_)
    for (size_t i = 0; i < kGrains.size(); ++i)
      visit(track.open[i], track.row, none, kGrains[i].grain_s);
  for (auto& [ids, track] : self.processes_)
    visit(track.open, track.device, track.process, kProcessGrain.grain_s);
}

ChunkRows Fold::take(bool all) {
  in_flight_.assign(ready_.begin(), ready_.end());
  each_open(*this, [&](Open& open, const auto& device, const auto& process, int64_t grain_s) {
    const bool has_new_row = open.chunk.times_ms.size() > open.written_rows;
    if (!open.is_dirty || (process && !all && !has_new_row)) return;
    in_flight_.push_back(
        row_of(open.id, open.begin_s, open.chunk, open.samples, device, process, grain_s));
    open.is_dirty = false;
    open.written_rows = open.chunk.times_ms.size();
  });
  return in_flight_;
}

void Fold::written() {
  const std::unordered_set<std::shared_ptr<const ChunkRow>> done(in_flight_.begin(),
                                                                 in_flight_.end());
  std::erase_if(ready_, [&](const auto& row) { return done.contains(row); });
  ready_bytes_ = 0;
  for (const auto& row : ready_) ready_bytes_ += row->bytes.size();
  in_flight_.clear();
}

// What is open still is written with what comes; what was closed meanwhile must wait as a whole.
void Fold::not_written() {
  std::unordered_set<int64_t> kept;
  for (const auto& row : ready_) kept.insert(row->id);
  each_open(*this, [&](Open& open, const auto&, const auto&, int64_t) {
    open.is_dirty = open.id != 0;
    open.written_rows = 0;
    kept.insert(open.id);
  });
  for (const auto& row : in_flight_) {
    if (kept.contains(row->id)) continue;
    ready_.push_back(row);
    ready_bytes_ += row->bytes.size();
  }
  in_flight_.clear();
  drop_oldest();
}

void Fold::restart_file() {
  each_open(*this, [](Open& open, const auto&, const auto&, int64_t) {
    open.is_dirty = open.id != 0;
    open.written_rows = 0;
  });
}

template <typename Want>
ChunkRows Fold::chunks_if(Want want) const {
  std::unordered_set<int64_t> seen;
  ChunkRows rows;
  each_open(*this, [&](const Open& open, const auto& device, const auto& process, int64_t grain_s) {
    if (open.id == 0 || !want(process, grain_s)) return;
    seen.insert(open.id);
    rows.push_back(
        row_of(open.id, open.begin_s, open.chunk, open.samples, device, process, grain_s));
  });
  const auto add = [&](const std::shared_ptr<const ChunkRow>& row) {
    if (want(row->process, row->grain_s) && seen.insert(row->id).second) rows.push_back(row);
  };
  for (const auto& row : ready_) add(row);
  for (const auto& row : in_flight_) add(row);
  return rows;
}

ChunkRows Fold::devices_chunks(int64_t grain_s) const {
  return chunks_if([grain_s](const auto& process, int64_t grain) {
    return process == nullptr && grain == grain_s;
  });
}

ChunkRows Fold::processes_chunks() const {
  return chunks_if([](const auto& process, int64_t) { return process != nullptr; });
}

std::vector<std::shared_ptr<const DeviceRow>> Fold::devices() const {
  std::vector<std::shared_ptr<const DeviceRow>> rows;
  for (const auto& [key, track] : devices_) rows.push_back(track.row);
  return rows;
}

}  // namespace vram::history
