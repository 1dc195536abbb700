// Real recordings, replayed with their own settings: every driver call must be the recorded one, at
// the same request.
#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
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
  return trace::open_trace(source_path("demo/") + name + ".pickle.xz").value();
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

// Recordings that begin in the middle of the same program, natively and with expandable segments,
// and one whose ring overflowed. The reserved peaks are PyTorch's own.
struct Middle {
  const char* name;
  uint64_t peak_reserved;
  uint64_t calls;
};
constexpr Middle kMiddles[] = {
    {"unet_multiscale.mid", 27011317760, 4},
    {"unet_multiscale.mid.exp", 16584278016, 2},
    {"unet_multiscale.ring", 27011317760, 0},
};

trace::Trace load_middle(const char* name) {
  return trace::open_trace(data_path("middle/") + name + ".pickle.xz").value();
}

class ExactFromTheMiddle : public testing::TestWithParam<Middle> {};

TEST_P(ExactFromTheMiddle, EveryRecordedCallComesOut) {
  const trace::Trace trace = load_middle(GetParam().name);
  const Program program = make_program(trace, trace.devices[0]);
  ASSERT_FALSE(program.initial_blocks.empty());
  const AllocatorSpec own = recorded_spec(trace);
  const ReplayResult result = run(program, *find_peer("torch"), own, {});
  EXPECT_EQ(result.start, Start::kRecorded);
  EXPECT_TRUE(result.completed);
  EXPECT_EQ(result.peak_reserved_bytes, GetParam().peak_reserved);
  EXPECT_EQ(program.recorded_calls.size(), GetParam().calls);
  EXPECT_EQ(result.matched_calls, GetParam().calls);
  EXPECT_EQ(result.made_calls, GetParam().calls);
}

INSTANTIATE_TEST_SUITE_P(Recordings, ExactFromTheMiddle, testing::ValuesIn(kMiddles));

// Also those that need no driver call: each block goes where PyTorch put it.
TEST(Exact, EveryBlockFromTheMiddleHasItsRecordedAddress) {
  const trace::Trace trace = load_middle("unet_multiscale.mid");
  const Program program = make_program(trace, trace.devices[0]);
  gpu::SimGpu gpu;
  SegmentSource segments(gpu, program);
  const auto torch = find_peer("torch")->make(
      {}, {.program = program, .segments = segments, .limit_bytes = std::nullopt});
  segments.begin_program();
  uint64_t requests = 0;
  for (size_t i = program.initial_ops; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.kind == OpKind::kAlloc) {
      const Request request{op.size_bytes, op.block, op.stream, op.pool, op.time_ns};
      ASSERT_EQ(torch->malloc(request), trace.events[op.event].address) << "event " << op.event;
      ++requests;
    } else if (op.kind == OpKind::kFree) {
      torch->free(op.block, op.time_ns);
    } else if (op.kind == OpKind::kFreeLater) {
      torch->free_later(op.block, op.time_ns);
    } else if (op.kind == OpKind::kComplete) {
      torch->complete(op.block, op.time_ns);
    }
  }
  EXPECT_GT(requests, 1000u);
}

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
