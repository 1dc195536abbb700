#include "explain/moment/ooms.hpp"

#include "explain/moment/state.hpp"

#include <span>
#include <utility>

namespace vram::explain {
namespace {

std::vector<int64_t> oom_events(const Sources& sources) {
  const std::span<const trace::Event> events = sources.trace.events_of(sources.device);
  std::vector<int64_t> found;
  for (uint64_t i = 0; i < sources.history.lifetime_of_event.size(); ++i) {
    if (events[i].kind == trace::EventKind::kOom) found.push_back(static_cast<int64_t>(i));
  }
  return found;
}

}  // namespace

uint64_t count_ooms(const Sources& sources) { return oom_events(sources).size(); }

std::vector<Oom> find_ooms(const Sources& sources) {
  const std::span<const trace::Event> events = sources.trace.events_of(sources.device);
  std::vector<int64_t> found = oom_events(sources);
  if (found.empty()) return {};
  if (found.size() > kMostOoms) {
    const auto half = static_cast<std::ptrdiff_t>(kMostOoms / 2);
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
