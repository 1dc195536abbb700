#include "replay/run.hpp"

#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "replay/testing/builders.hpp"
#include "trace/open.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace vram::replay {
namespace {

// What was held after each op, without any slices.
struct Held {
  int64_t time_ns = 0;
  uint64_t requested_bytes = 0;
  uint64_t reserved_bytes = 0;
};

std::vector<Held> held_after_each_op(const Program& program) {
  gpu::SimGpu gpu;
  SegmentSource segments(gpu, program);
  const auto allocator = find_peer("torch")->make(
      {}, {.program = program, .segments = segments, .limit_bytes = std::nullopt});
  segments.begin_program();
  std::vector<Held> list;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::kAlloc) {
      EXPECT_NE(allocator->malloc({op.size_bytes, op.block, op.stream, op.pool, op.time_ns}), 0u);
    } else if (op.kind == OpKind::kFree) {
      allocator->free(op.block, op.time_ns);
    } else if (op.kind == OpKind::kFreeLater) {
      allocator->free_later(op.block, op.time_ns);
    } else if (op.kind == OpKind::kComplete) {
      allocator->complete(op.block, op.time_ns);
    } else {
      allocator->empty_cache();
    }
    list.push_back(
        {op.time_ns, allocator->usage().requested_bytes, allocator->usage().reserved_bytes});
  }
  return list;
}

// The most that was held at any time from begin on and before end: also what was there already.
Held max_held(const std::vector<Held>& list, int64_t begin_ns, int64_t end_ns) {
  Held most;
  for (size_t i = 0; i < list.size(); ++i) {
    const bool ends_before = i + 1 < list.size() && list[i + 1].time_ns < begin_ns;
    if (list[i].time_ns >= end_ns || ends_before) continue;
    most.requested_bytes = std::max(most.requested_bytes, list[i].requested_bytes);
    most.reserved_bytes = std::max(most.reserved_bytes, list[i].reserved_bytes);
  }
  return most;
}

void expect_curve(const Program& program, uint32_t slices) {
  const auto curve =
      run(program, *find_peer("torch"), {"torch", {}}, {.curve_slices = slices}).curve;
  ASSERT_FALSE(curve.empty());
  ASSERT_LE(curve.size(), slices);
  EXPECT_EQ(curve.front().time_ns, 0);
  const std::vector<Held> held = held_after_each_op(program);
  const int64_t length_ns = curve.size() > 1 ? curve[1].time_ns : program.duration_ns + 1;
  EXPECT_GT(curve.back().time_ns + length_ns, program.duration_ns) << "the curve ends too early";
  for (size_t i = 0; i < curve.size(); ++i) {
    const int64_t begin_ns = static_cast<int64_t>(i) * length_ns;
    ASSERT_EQ(curve[i].time_ns, begin_ns);
    const Held expected = max_held(held, begin_ns, begin_ns + length_ns);
    ASSERT_EQ(curve[i].requested_bytes, expected.requested_bytes) << "slice " << i;
    ASSERT_EQ(curve[i].reserved_bytes, expected.reserved_bytes) << "slice " << i;
  }
}

TEST(Curve, WhatIsHeldShowsInEverySlice) {
  ProgramBuilder p;
  const uint32_t block = p.alloc(kGiB);
  p.free(block);
  Program program = p.build();
  program.ops[1].time_ns = program.duration_ns = 10'000'000'000;
  const auto curve = run(program, *find_peer("torch"), {"torch", {}}, {}).curve;
  ASSERT_EQ(curve.size(), 200u);
  for (const CurvePoint& point : curve) EXPECT_EQ(point.requested_bytes, kGiB);
}

TEST(Curve, IsTheMostThatWasHeldInEachSlice) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    ProgramBuilder p;
    std::vector<uint32_t> live;
    for (int i = 0; i < 300; ++i) {
      if (live.empty() || random() % 2 == 0) {
        live.push_back(p.alloc((1 + random() % 64) * kMiB));
      } else {
        std::swap(live[random() % live.size()], live.back());
        p.free(live.back());
        live.pop_back();
      }
      if (random() % 50 == 0) p.empty_cache();
    }
    Program program = p.build();
    int64_t now_ns = 0;
    for (size_t i = 0; i < program.ops.size(); ++i) {
      // Bursts and pauses: many ops in one slice, many slices without an op.
      if (random() % 4 == 0) now_ns += static_cast<int64_t>(random() % 100'000);
      program.ops[i].time_ns = now_ns;
    }
    program.duration_ns = now_ns + static_cast<int64_t>(random() % 100'000);
    expect_curve(program, 1 + static_cast<uint32_t>(random() % 200));
  }
}

TEST(Curve, OfARealProgram) {
  const auto trace = trace::open_trace(source_path("demo/unet_multiscale.pickle.xz"));
  ASSERT_TRUE(trace) << trace.error().message;
  expect_curve(make_program(*trace, trace->devices.front()), 200);
}

// Memory that is free at first may go before the first request is served.
TEST(Run, TheCurveBeginsWithWhatWasThereBefore) {
  ProgramBuilder builder;
  builder.initial_segment({.address = uint64_t{1} << 40, .size_bytes = 60 * kMiB});
  builder.alloc(50 * kMiB, 1);
  builder.alloc(1 * kMiB);
  const auto result = replay(builder.build(), parse_spec("torch").value(),
                             {.capacity_bytes = 100 * kMiB, .curve_slices = 2})
                          .value();
  EXPECT_EQ(result.start_reserved_bytes, 60 * kMiB);
  ASSERT_EQ(result.curve.size(), 2u);
  EXPECT_EQ(result.curve[0].reserved_bytes, result.peak_reserved_bytes);
  EXPECT_EQ(result.retries, 1u);
}

// Of a request that no device could serve, whose pages take 52,000 calls to map.
TEST(Run, GivesUpBeyondTheMaximumOfDriverCalls) {
  ProgramBuilder builder;
  builder.free(builder.alloc(kGiB * 1000));
  const Program program = builder.build();
  const AllocatorSpec spec = parse_spec(kExpandableSpec).value();
  const auto limited = replay(program, spec, {.max_driver_calls = 1000}).value();
  EXPECT_TRUE(limited.gave_up);
  EXPECT_FALSE(limited.completed);
  const auto whole = replay(program, spec, {}).value();
  EXPECT_FALSE(whole.gave_up);
  EXPECT_TRUE(whole.completed);
}

// As a convolution, of which PyTorch keeps the plan whose workspace it got.
TEST(Run, AChoiceBeginsWithWhatItGotLast) {
  const auto program = [](uint64_t least) {
    ProgramBuilder builder;
    for (const uint64_t mib : {100, 300, 100, 450, 100}) {
      const uint32_t held = builder.alloc(mib * kMiB);
      builder.free(builder.choose(0, {256 * kMiB, 64 * kMiB}, least));
      builder.free(held);
    }
    return builder.build();
  };
  const AllocatorSpec spec = parse_spec("torch").value();
  const ReplayOptions limit{.capacity_bytes = 500 * kMiB};
  const auto caught = replay(program(40 * kMiB), spec, limit).value();
  EXPECT_TRUE(caught.completed);
  EXPECT_EQ(caught.caught_ooms, 4u) << "256 MiB; then 64, 256 and 64 MiB";
  EXPECT_EQ(caught.peak_requested_bytes, 490 * kMiB) << "450 MiB and what was left";
  const auto ended = replay(program(60 * kMiB), spec, limit).value();
  EXPECT_FALSE(ended.completed);
  ASSERT_TRUE(ended.oom);
  EXPECT_EQ(ended.oom->requested_bytes, 60 * kMiB);
  const auto free = replay(program(40 * kMiB), spec, {}).value();
  EXPECT_EQ(free.caught_ooms, 0u);
  EXPECT_EQ(free.peak_requested_bytes, 706 * kMiB) << "the first plan";
}

// A request of 0 bytes is granted, but a program that has got nothing yet does not begin with it.
TEST(Run, AChoiceThatGotNothingBeginsWithItsFirstRequest) {
  ProgramBuilder builder;
  builder.free(builder.choose(0, {64 * kMiB, 0}, 8 * kMiB));
  const AllocatorSpec spec = parse_spec("torch").value();
  EXPECT_EQ(replay(builder.build(), spec, {}).value().peak_requested_bytes, 64 * kMiB);
}

}  // namespace
}  // namespace vram::replay
