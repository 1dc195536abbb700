#include "explain/waste/peak_replay.hpp"

#include "explain/testing/caching_allocator.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vram::explain {
namespace {

// The peak with the changes, by adding up the blocks of each state.
uint64_t peak_by_sums(const History& history, size_t states, const std::vector<Change>& changes) {
  uint64_t largest = 0;
  for (int64_t state = -1; state + 1 < static_cast<int64_t>(states); ++state) {
    uint64_t sum = 0;
    for (uint32_t id = 0; id < history.lifetimes.size(); ++id) {
      bool is_there = history.active_at(history.lifetimes[id], state);
      for (const Change& c : changes)
        is_there = is_there && !(c.lifetime == id && c.from <= state && state < c.until);
      if (is_there) sum += history.lifetimes[id].requested_bytes;
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

TEST(PeakReplay, EqualsTheSumsOfRandomProgramsWithRandomChanges) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    trace::Trace trace;
    testing::CachingAllocator allocator{AllocatorRules{}};
    std::vector<uint64_t> live;
    for (int i = 0; i < 20; ++i) live.push_back(allocator.allocate(1 + random() % 3'000'000));
    allocator.record_into(&trace);
    for (int i = 0; i < 400; ++i) {
      if (live.size() > 40 || (random() % 2 == 0 && !live.empty())) {
        const size_t at = random() % live.size();
        allocator.free(live[at]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        live.push_back(allocator.allocate(1 + random() % 3'000'000));
      }
    }
    trace::DeviceTrace& device = trace.devices.emplace_back();
    device.event_count = trace.events.size();
    allocator.write_end_state(device);
    const History history = replay_history(trace, device);
    const PeakReplay replay(trace.events_of(device), history);
    const size_t states = trace.events.size() + 1;
    EXPECT_EQ(replay.peak(), peak_by_sums(history, states, {}));
    std::vector<Change> changes;
    for (uint32_t id = 0; id < history.lifetimes.size();
         id += 1 + static_cast<uint32_t>(random() % 5)) {
      const auto from = static_cast<int64_t>(random() % states) - 1;
      const bool ends = random() % 4 != 0;
      changes.push_back(
          {id, from, ends ? from + static_cast<int64_t>(random() % 200) : kNeverGone});
    }
    EXPECT_EQ(replay.peak_with(changes), peak_by_sums(history, states, changes)) << seed;
    EXPECT_EQ(replay.saved_by({}), 0U);
  }
}

}  // namespace
}  // namespace vram::explain
