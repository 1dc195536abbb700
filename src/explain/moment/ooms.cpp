#include "explain/moment/ooms.hpp"

#include "explain/moment/state.hpp"

#include <utility>

namespace vram::explain {

std::vector<uint64_t> oom_events(std::span<const trace::Event> events) {
  std::vector<uint64_t> found;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind == trace::EventKind::kOom) found.push_back(i);
  }
  return found;
}

std::vector<Oom> find_ooms(const Sources& sources) {
  const std::span<const trace::Event> events = sources.trace.events_of(sources.device);
  const std::vector<uint64_t> all = oom_events(events);
  if (all.empty()) return {};
  std::vector<int64_t> found(all.begin(), all.end());
  if (found.size() > kMaxOoms) {
    const auto half = static_cast<std::ptrdiff_t>(kMaxOoms / 2);
    found.erase(found.begin() + half, found.end() - half);
  }
  std::vector<State> states = states_after(sources, found);
  std::vector<Oom> ooms(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ooms[i].moment = states[i].moment;
    const trace::Event& event = events[static_cast<size_t>(found[i])];
    ooms[i].requested_bytes = event.size_bytes;
    ooms[i].device_free_bytes = event.address;
    ooms[i].largest_hole_bytes = states[i].waste.largest_hole_bytes;
    ooms[i].state = std::move(states[i]);
  }
  return ooms;
}

}  // namespace vram::explain
