// Fold: aggregates samples into chunks (of samples, minutes and hours) until they are written. A
// growing chunk is written repeatedly as the same row: its id is assigned when it is created. So
// the file always contains all grains of the data it has.
//
//     Sampled ──▶ open chunks ──(its time is over)──▶ ready ──take()──▶ Store ──written()──▶
//     dropped
//
// Not locked; adding a sample takes microseconds and never waits.
#pragma once

#include "history/chunk.hpp"
#include "history/metrics.hpp"
#include "history/series.hpp"
#include "watch/sampler.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::history {

// What the file contains already.
struct FoldStart {
  std::map<std::string, int64_t> devices;  // ids by key
  int64_t last_device_id = 0;
  int64_t last_chunk_id = 0;
};

class Fold {
 public:
  Fold(FoldStart start, uint64_t max_ready_bytes);

  void add(const watch::Sampled& sampled);

  // Returns what is to be written now; processes' chunks only once a minute, unless `all`. After
  // each take(), call written() or not_written() before the next.
  [[nodiscard]] ChunkRows take(bool all);
  void written();
  void not_written();
  // The file was replaced: all open chunks must be written again.
  void restart_file();

  // Returns everything that may differ from the file, each id once: one grain of the devices, or
  // the processes.
  [[nodiscard]] ChunkRows devices_chunks(int64_t grain_s) const;
  [[nodiscard]] ChunkRows processes_chunks() const;

  [[nodiscard]] std::vector<std::shared_ptr<const DeviceRow>> devices() const;
  [[nodiscard]] int64_t last_chunk_id() const { return start_.last_chunk_id; }
  [[nodiscard]] uint64_t ready_bytes() const { return ready_bytes_; }
  [[nodiscard]] uint64_t dropped() const { return dropped_; }

 private:
  struct Open {
    int64_t id = 0;  // 0: none
    int64_t begin_s = 0;
    Chunk chunk;
    bool is_dirty = false;
    size_t written_rows = 0;
    uint64_t samples = 0;
  };
  struct DeviceTrack {
    std::shared_ptr<const DeviceRow> row;
    std::array<Open, kGrains.size()> open;
  };
  struct ProcessTrack {
    std::shared_ptr<const DeviceRow> device;
    std::shared_ptr<const ProcessRow> process;
    Open open;
    int64_t seen_minute = 0;
  };
  struct KnownProcess {
    std::shared_ptr<const ProcessRow> row;
    Shared<watch::ProcessFacts> facts;  // from which the row was made
    int64_t seen_minute = 0;
  };

  DeviceTrack& track_of(HistoryDevice device);
  const std::shared_ptr<const DeviceRow>& add_device(const watch::Device& device, int64_t time_ms);
  void add_instances(const watch::Device& device, const std::string& key, int64_t time_ms);
  using DeviceRows = std::vector<std::shared_ptr<const DeviceRow>>;
  void add_process(const watch::Process& process, const DeviceRows& devices, int64_t time_ms);
  const KnownProcess& known_process(const Shared<watch::ProcessFacts>& facts, int64_t minute);
  void forget_gone(int64_t minute);
  void add_row(DeviceTrack& track, int64_t time_ms, const std::vector<MetricValue>& values);
  // Closes chunks whose time is over, to make room for a row of this time.
  void make_room(Open& open, Grain grain, int64_t time_ms,
                 const std::shared_ptr<const DeviceRow>& device,
                 const std::shared_ptr<const ProcessRow>& process);
  void close(Open& open, const std::shared_ptr<const DeviceRow>& device,
             const std::shared_ptr<const ProcessRow>& process, int64_t grain_s);
  void drop_oldest();
  // visit(open, device, process or nothing, grain_s)
  template <typename Self, typename Visit>
  static void each_open(Self& self, Visit visit);
  template <typename Want>
  [[nodiscard]] ChunkRows chunks_if(Want want) const;

  FoldStart start_;
  uint64_t max_ready_bytes_;
  std::map<std::string, DeviceTrack> devices_;                     // by key
  std::map<std::pair<int64_t, int64_t>, ProcessTrack> processes_;  // by ids of device and process
  std::unordered_map<int64_t, KnownProcess> known_processes_;      // by id
  std::deque<std::shared_ptr<const ChunkRow>> ready_;
  ChunkRows in_flight_;
  uint64_t ready_bytes_ = 0;
  uint64_t dropped_ = 0;
  int64_t minute_ = 0;  // of the last sample
};

}  // namespace vram::history
