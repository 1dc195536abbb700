// Rates: what counters that only grow say between two readings of the same device: how busy a
// process keeps it, how fast bytes cross the bus and the links. A counter that begins anew, and a
// device or process that was not there before, have no rate until the next reading.
//
//     Readings (now) + counters of the last ──▶ Readings with percents and rates
//
// One thread at a time.
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
  // Percents and rates that the source knows itself stay as they are.
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

}  // namespace vram::watch
