#include "gpu/sim/streams.hpp"

#include <algorithm>

namespace vram::gpu {

void Streams::enqueue(uint32_t device, StreamHandle stream, int64_t now_ns, int64_t duration_ns) {
  int64_t& end = ends_[{device, stream}];
  end = std::max(end, now_ns) + duration_ns;
}

void Streams::hold_until(uint32_t device, StreamHandle stream, int64_t time_ns) {
  int64_t& end = ends_[{device, stream}];
  end = std::max(end, time_ns);
}

int64_t Streams::idle_at(uint32_t device) const {
  int64_t latest = 0;
  for (auto it = ends_.lower_bound({device, 0}); it != ends_.end() && it->first.first == device;
       ++it) {
    latest = std::max(latest, it->second);
  }
  return latest;
}

int64_t Streams::idle_at(uint32_t device, StreamHandle stream) const {
  const auto it = ends_.find({device, stream});
  return it == ends_.end() ? 0 : it->second;
}

EventHandle Streams::record(uint32_t device, StreamHandle stream, int64_t now_ns) {
  events_[++last_event_] = std::max(now_ns, idle_at(device, stream));
  return last_event_;
}

std::optional<int64_t> Streams::happens_at(EventHandle event) const {
  const auto it = events_.find(event);
  if (it == events_.end()) return std::nullopt;
  return it->second;
}

bool Streams::destroy(EventHandle event) { return events_.erase(event) == 1; }

}  // namespace vram::gpu
