// Queries of the history and their results. Values.
#pragma once

#include "watch/snapshot.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::history {

struct HistoryDevice {
  std::string key;   // key_of(identity), else "device N"; of a MIG instance "<key>/mig-<instance>"
  std::string name;  // the product's, or the instance's profile; "" where unknown
  uint32_t index = 0;                   // when it was last seen
  std::optional<uint64_t> total_bytes;  // likewise
  bool operator==(const HistoryDevice&) const = default;
};

struct HistoryQuery {
  std::string metric;                 // a name of metrics()
  std::optional<std::string> device;  // a key; nothing: each device's series
  int64_t from_ns = 0;                // since 1970, UTC
  int64_t to_ns = INT64_MAX;          // exclusive
  int64_t step_ns = 0;                // 0: the finest available
};

// A step in which there was a sample. In the metric's unit; steps without one are left out.
struct HistoryPoint {
  int64_t time_ns = 0;  // beginning of the step
  double average = 0;
  double minimum = 0;
  double maximum = 0;
  uint64_t count = 0;  // of samples
};

struct Series {
  HistoryDevice device;
  // The requested step, or a longer one if only coarser grains reach back that far. Steps begin at
  // multiples of the step since 1970. 1 ms: every sample.
  int64_t step_ns = 0;
  std::vector<HistoryPoint> points;  // by time
};

struct HistoryProcess {
  uint32_t pid = 0;
  std::optional<uint64_t> start_ticks;
  std::optional<std::string> user;
  std::optional<std::string> command;  // its first 200 columns
  std::optional<std::string> container;
  std::optional<std::string> pod;  // "namespace/name" if known, else its uid
  std::optional<std::string> slurm_job;

  bool operator==(const HistoryProcess&) const = default;
};

struct ProcessQuery {
  std::optional<std::string> device;
  int64_t from_ns = 0;
  int64_t to_ns = INT64_MAX;
  int64_t step_ns = 0;  // rounded up to minutes
  size_t limit = 10;    // processes a device
  // Ids of History::holders(), at most `limit`; empty: those with the highest peaks.
  std::vector<int64_t> only = {};
};

// A process that held memory of a device.
struct HistoryHolder {
  HistoryDevice device;
  int64_t id = 0;  // of the process, in this history
};

// A process on one device. Averages are over the samples in which it was there, not the step.
struct ProcessSeries {
  HistoryProcess process;
  HistoryDevice device;
  int64_t step_ns = 0;
  std::vector<HistoryPoint> points;  // of used bytes
};

// Rows: the contents of the history's file as values (devices, processes, chunks), and how to make
// them from a sample. May be called from any thread.

struct Grain {
  int64_t grain_s = 0;  // 0: each sample a row
  int64_t span_s = 0;   // of a chunk
};
inline constexpr std::array kGrains = {Grain{0, 60}, Grain{60, 900}, Grain{3600, 28800}};
inline constexpr Grain kProcessGrain = kGrains[1];

struct DeviceRow {
  int64_t id = 0;
  HistoryDevice device;
};

struct ProcessRow {
  int64_t id = 0;  // from boot, pid and start: independent of the writer
  HistoryProcess process;
};

// A chunk as a row of the file.
struct ChunkRow {
  int64_t id = 0;
  std::shared_ptr<const DeviceRow> device;
  std::shared_ptr<const ProcessRow> process;  // none: the device's own figures
  int64_t grain_s = 0;
  int64_t begin_s = 0;  // since 1970, UTC
  std::vector<uint8_t> bytes;
  uint64_t samples = 0;  // that are lost with it
};
using ChunkRows = std::vector<std::shared_ptr<const ChunkRow>>;

// Short texts that others keep in the file, by name.
using TextCache = std::map<std::string, std::string>;

// Identifies the boot of the machine: pids, start times and monotonic times are valid within a
// boot.
[[nodiscard]] uint64_t this_boot();

// value, down to a multiple of unit, also below 0.
[[nodiscard]] int64_t floor_to(int64_t value, int64_t unit);

[[nodiscard]] HistoryDevice history_device(const watch::Device& device);
[[nodiscard]] HistoryProcess history_process(const watch::ProcessFacts& facts);
[[nodiscard]] int64_t process_id(const watch::ProcessFacts& facts);

}  // namespace vram::history
