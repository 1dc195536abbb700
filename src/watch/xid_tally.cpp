#include "watch/xid_tally.hpp"

#include <algorithm>

namespace vram::watch {
namespace {

void count(std::vector<XidCount>& counts, uint64_t xid, int64_t time_ns) {
  auto place = std::ranges::lower_bound(counts, xid, {}, &XidCount::xid);
  if (place == counts.end() || place->xid != xid) {
    if (counts.size() == kMaxXids) return;
    place = counts.insert(place, XidCount{xid, 0, 0});
  }
  ++place->count;
  place->last_time_ns = time_ns;
}

}  // namespace

void XidTally::apply(Readings& readings, int64_t time_ns) {
  for (DeviceReading& reading : readings.devices) {
    const std::string key = key_of(reading.identity);
    if (key.empty()) continue;
    const auto before = counts_.find(key);
    if (!reading.new_xids && before == counts_.end()) continue;
    std::vector<XidCount>& counts = counts_[key];
    for (const uint64_t xid : reading.new_xids.value_or(std::vector<uint64_t>{})) {
      count(counts, xid, time_ns);
    }
    reading.xids = counts;
  }
}

}  // namespace vram::watch
