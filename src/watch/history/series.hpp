// Queries of the history and their results. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::watch {

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

}  // namespace vram::watch
