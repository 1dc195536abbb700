// Rates: computes rates from counters in two readings of the same device: how busy a process keeps
// it, and the bytes per second of the bus and the links. A reset counter, and a new device or
// process, have no rate until the next reading.
//
//     Readings (now) + counters of the last ──▶ Readings with percents and rates
//
// Use it from one thread at a time.
#pragma once

#include "watch/sources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace vram::watch {

class Rates {
 public:
  // Percentages and rates that the source reports itself are kept.
  void apply(Readings& readings);

 private:
  using ProcessKey =
      std::tuple<uint32_t, std::optional<uint32_t>, std::optional<uint32_t>>;  // pid, instance
  struct Counters {
    uint64_t time_ns = 0;
    std::vector<std::optional<uint64_t>> bytes;  // in the order of kTraffic
    std::map<ProcessKey, uint64_t> busy_ns;
  };
  [[nodiscard]] static ProcessKey key_of_process(const gpu::DeviceProcess& process);
  [[nodiscard]] static Counters counters_of(const DeviceReading& reading);
  static void apply_to(DeviceReading& reading, const Counters& before);

  std::map<std::string, Counters> last_;  // by the device's key
};

// XidTally: counts each device's faults since this program started to watch. Keyed by device, so
// that the counts survive a reload of the driver.
//
//     Readings (new Xids) + counts ──▶ Readings with counts
//
// Use it from one thread at a time. The driver chooses the numbers: only the first kMaxXids
// different ones of a device are counted.

inline constexpr size_t kMaxXids = 64;

class XidTally {
 public:
  // The time is since 1970, UTC: that of the new ones.
  void apply(Readings& readings, int64_t time_ns);

 private:
  std::map<std::string, std::vector<XidCount>> counts_;  // by the device's key
};

}  // namespace vram::watch
