// Groups: the blocks of a device by one dimension (line of code, scope, category, step, …), with
// the names that the report has. Pure; linear in the events for each dimension.
#pragma once

#include "explain/moment/device_view.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::pages {

struct Groups {
  std::string_view id;             // "user_frame", …; "step": of the allocation; "size_range"
  std::vector<std::string> names;  // the group that held most bytes on average first
  std::vector<uint32_t> of_lifetime;
};

// The dimensions that divide this device's blocks into several groups. First, and even if it has
// one group, the one by which the report lists holders: "user_frame", or "size" in a recording that
// says nothing about the code.
[[nodiscard]] std::vector<Groups> find_groups(const explain::DeviceView& view);
// The ids of the dimensions that the recording knows, in the same order.
[[nodiscard]] std::vector<std::string_view> dimensions_of(const explain::DeviceView& view);
// By one of them.
[[nodiscard]] Groups find_groups(const explain::DeviceView& view, std::string_view dimension);

// Calls change(lifetime, is_added) for the blocks that become active or stop being active with each
// event, and after each of them after(event). Blocks from before the recording come first, followed
// by after(kBeforeFirstEvent).
template <typename Change, typename After>
void walk_blocks(const explain::History& history, Change&& change, After&& after) {
  for (uint32_t id = 0; id < history.before_recording_count; ++id) change(id, true);
  after(explain::kBeforeFirstEvent);
  auto implied = history.implied_frees.begin();
  for (uint32_t event = 0; event < history.lifetime_of_event.size(); ++event) {
    for (; implied != history.implied_frees.end() && implied->event <= event; ++implied)
      change(implied->lifetime, false);
    if (const uint32_t id = history.lifetime_of_event[event]; id != explain::kNoLifetime) {
      const explain::Lifetime& life = history.lifetimes[id];
      if (life.alloc_event == event) change(id, true);
      if (life.free_completed_event == event) change(id, false);
    }
    after(static_cast<int64_t>(event));
  }
}

}  // namespace vram::pages
