// XidTally: how often each device's driver has told of each fault since this program began to
// watch. Kept by the device's key, so that it outlives a driver that is loaded anew.
//
//     Readings (new Xids) + what was counted ──▶ Readings with counts
//
// One thread at a time. A driver chooses the numbers: those beyond the first kMaxXids of a device
// are not counted.
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
