// XidTally: counts each device's faults since this program started to watch. Keyed by device, so
// that the counts survive a reload of the driver.
//
//     Readings (new Xids) + counts ──▶ Readings with counts
//
// Use it from one thread at a time. The driver chooses the numbers: only the first kMaxXids
// different ones of a device are counted.
#pragma once

#include "watch/sources.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace vram::watch {

inline constexpr size_t kMaxXids = 64;

class XidTally {
 public:
  // The time is since 1970, UTC: that of the new ones.
  void apply(Readings& readings, int64_t time_ns);

 private:
  std::map<std::string, std::vector<XidCount>> counts_;  // by the device's key
};

}  // namespace vram::watch
