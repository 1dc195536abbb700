// Real recordings, replayed with their own settings: every driver call must be the recorded one, at
// the same request.
#include "base/bytes.hpp"
#include "replay/run.hpp"
#include "trace/open.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vram::replay {
namespace {

struct Truth {
  const char* name;
  uint64_t peak_reserved;
  uint64_t device_allocs;  // with the segment that was there before
  uint64_t peak_active;
  uint64_t peak_requested;
};

// What PyTorch's own counters said at the end of the recorded runs.
constexpr Truth kTruths[] = {
    {"unet_multiscale", 27011317760, 90, 15971106816, 15962232252},
    {"leak.stacks", 3984588800, 89, 3680216064, 3664595996},
};

trace::Trace load(const char* name) {
  return trace::open_trace(std::string(VRAM_TEST_DATA "/../../demo/") + name + ".pickle.xz")
      .value();
}

// The op of the request during which a recorded call was made: the next alloc.
uint32_t request_of(const trace::Trace& trace, const DriverCall& call) {
  uint32_t event = call.event;
  while (trace.events[event].kind != trace::EventKind::kAlloc) ++event;
  return event;
}

class Exact : public testing::TestWithParam<Truth> {};

TEST_P(Exact, SameCallsSameAddressesSameCounters) {
  const trace::Trace trace = load(GetParam().name);
  const Program program = make_program(trace, trace.devices[0]);
  std::vector<DriverCall> log;
  const ReplayResult result = run(program, *find_peer("torch"), recorded_spec(trace), {}, &log);
  ASSERT_EQ(log.size(), program.recorded_calls.size());
  for (size_t i = 0; i < log.size(); ++i) {
    DriverCall expected = program.recorded_calls[i];
    expected.event = request_of(trace, expected);
    EXPECT_EQ(log[i], expected) << "call " << i;
  }
  EXPECT_TRUE(result.completed);
  EXPECT_EQ(result.peak_reserved_bytes, GetParam().peak_reserved);
  EXPECT_EQ(result.peak_active_bytes, GetParam().peak_active);
  EXPECT_EQ(result.peak_requested_bytes, GetParam().peak_requested);
  EXPECT_EQ(result.device_allocs, GetParam().device_allocs);
  EXPECT_EQ(result.device_frees, 0u);
  EXPECT_EQ(result.retries, 0u);
}

INSTANTIATE_TEST_SUITE_P(Recordings, Exact, testing::ValuesIn(kTruths));

// Runs of the same program under other settings and memory fractions, as PyTorch counted them.
struct Row {
  const char* spec;
  double cap_gib;
  bool completed;
  uint64_t peak_reserved, device_allocs, device_frees, retries;
};
constexpr Row kRows[] = {
    {"torch:expandable_segments=True", 0, true, 16584278016, 86, 0, 0},
    {"torch:expandable_segments=True", 15.167399999999999, true, 16288579584, 159, 173, 21},
    {"torch:expandable_segments=True", 15.2, true, 16290676736, 151, 185, 21},
    {"torch:expandable_segments=True", 15.6135, true, 16731078656, 88, 5, 1},
    {"torch", 15.167399999999999, false, 16043212800, 82, 22, 2},
    {"torch", 15.6135, false, 16624123904, 85, 24, 2},
    {"torch", 16.357, false, 17370710016, 93, 33, 4},
    {"torch", 17.843999999999998, false, 19144900608, 88, 26, 3},
    {"torch", 20.0745, true, 21428699136, 102, 36, 2},
};

TEST(Exact, MeasuredRunsUnderALimit) {
  const trace::Trace trace = load("unet_multiscale");
  const Program program = make_program(trace, trace.devices[0]);
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::string(row.spec) + " at " + std::to_string(row.cap_gib));
    ReplayOptions options;
    options.capacity_is_fraction = true;
    if (row.cap_gib > 0) {
      options.capacity_bytes = static_cast<uint64_t>(row.cap_gib * static_cast<double>(kGiB));
    }
    const ReplayResult result =
        run(program, *find_peer("torch"), parse_spec(row.spec).value(), options);
    EXPECT_EQ(result.completed, row.completed);
    EXPECT_EQ(result.peak_reserved_bytes, row.peak_reserved);
    EXPECT_EQ(result.device_allocs, row.device_allocs);
    EXPECT_EQ(result.device_frees, row.device_frees);
    EXPECT_EQ(result.retries, row.retries);
    options.capacity_is_fraction = false;  // now the device ends there: the same outcome
    const ReplayResult hard =
        run(program, *find_peer("torch"), parse_spec(row.spec).value(), options);
    EXPECT_EQ(hard.completed, row.completed);
    if (options.capacity_bytes) {
      EXPECT_LE(hard.peak_reserved_bytes, *options.capacity_bytes);
    }
  }
}

}  // namespace
}  // namespace vram::replay
