// Rows: the contents of the history's file as values (devices, processes, chunks), and how to make
// them from a sample. May be called from any thread.
#pragma once

#include "watch/history/series.hpp"
#include "watch/snapshot.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vram::watch {

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

[[nodiscard]] HistoryDevice history_device(const Device& device);
[[nodiscard]] HistoryProcess history_process(const ProcessFacts& facts);
[[nodiscard]] int64_t process_id(const ProcessFacts& facts);

}  // namespace vram::watch
