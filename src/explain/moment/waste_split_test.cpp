// The split of reserved minus requested memory adds up to the byte after every event: of generated
// programs, and of the real recordings in tests/data (VRAM_RECORDINGS: also of those in this
// folder).
#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/testing/caching_allocator.hpp"
#include "trace/open.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <utility>

namespace vram::explain {
namespace {

using testing::CachingAllocator;

// Moments whose live blocks are gathered together.
constexpr uint64_t kMomentsAtOnce = 256;

void expect_parts_add_up(const Waste& waste, const Totals& totals, int64_t event) {
  const uint64_t unused = totals.reserved_bytes - totals.requested_bytes;
  EXPECT_EQ(waste.rounding_bytes + waste.pending_bytes - waste.pending_requested_bytes +
                waste.releasable_bytes + waste.stranded_bytes + waste.private_pool_bytes,
            unused)
      << "after event " << event;
  EXPECT_LE(waste.releasable_small_bytes + waste.releasable_side_bytes, waste.releasable_bytes);
  EXPECT_LE(waste.pinned_bytes, waste.stranded_bytes);
}

// Returns the number of events.
uint64_t check_every_event(const trace::Trace& trace, const trace::DeviceTrace& device) {
  const History history = replay_history(trace, device);
  const EventClock clock(trace, device);
  const Curve curve = draw_curve(trace, device, history, clock, 10);
  const Scopes scopes;
  const Names names;
  const Sources sources{trace, device, history, clock, curve, scopes, names};
  const AllocatorRules rules = rules_of(trace, device.kind);
  TotalsWalker walker(trace.events_of(device), history);
  const auto count = static_cast<int64_t>(history.lifetime_of_event.size());
  for (int64_t first = -1; first < count && !::testing::Test::HasFailure();) {
    std::vector<int64_t> moments;
    for (; first < count && moments.size() < kMomentsAtOnce; ++first) moments.push_back(first);
    for (const LiveSet& live : gather_live(trace, device, history, moments)) {
      if (live.event >= 0) walker.step();
      expect_parts_add_up(measure_waste(sources, rules, live), walker.totals(), live.event);
    }
  }
  return static_cast<uint64_t>(count);
}

trace::Trace random_program(uint32_t seed, bool expandable) {
  std::mt19937_64 random(seed);
  trace::Trace trace;
  CachingAllocator allocator(AllocatorRules{}, expandable);
  allocator.record_into(&trace);
  const std::array streams = {trace::StreamId{0}, trace.tables.streams.intern(7)};
  std::vector<uint64_t> live;
  std::vector<uint64_t> pending;
  for (int i = 0; i < 600; ++i) {
    if (random() % 100 < 52 || live.empty()) {
      const uint64_t largest = random() % 3 == 0 ? 30 * kMiB : 90'000;
      live.push_back(allocator.allocate(1 + random() % largest, streams[random() % 2]));
    } else {
      std::swap(live[random() % live.size()], live.back());
      const bool is_awaited = random() % 5 == 0;
      allocator.free(live.back(), is_awaited);
      if (is_awaited) pending.push_back(live.back());
      live.pop_back();
    }
    if (!pending.empty() && random() % 8 == 0) {
      allocator.complete(pending.back());
      pending.pop_back();
    }
    if (random() % 200 == 0) allocator.empty_cache();
  }
  trace::DeviceTrace& device = trace.devices.emplace_back();
  device.event_count = trace.events.size();
  allocator.write_end_state(device);
  return trace;
}

TEST(WasteSplit, AddsUpAfterEveryEventOfRandomPrograms) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    const trace::Trace trace = random_program(seed, seed % 2 == 0);
    EXPECT_GT(check_every_event(trace, trace.devices[0]), 800U) << seed;
  }
}

TEST(WasteSplit, AddsUpAfterEveryEventOfRealRecordings) {
  std::vector<std::string> folders = {data_path("middle"), data_path("recordings")};
  if (const char* more = std::getenv("VRAM_RECORDINGS"))  // NOLINT(concurrency-mt-unsafe)
    folders.emplace_back(more);
  uint64_t files = 0;
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string path = entry.path();
      if (!path.ends_with(".vtrace") && !path.ends_with(".pickle.xz")) continue;
      SCOPED_TRACE(path);
      const Result<trace::Trace> trace = trace::open_trace(path);
      ASSERT_TRUE(trace.has_value());
      ++files;
      for (const trace::DeviceTrace& device : trace->devices) check_every_event(*trace, device);
    }
  }
  EXPECT_GE(files, 6U);
}

}  // namespace
}  // namespace vram::explain
