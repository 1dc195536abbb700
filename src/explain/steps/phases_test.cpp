#include "explain/steps/phases.hpp"

#include "explain/steps/steps.hpp"
#include "explain/testing/zoo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::explain {
namespace {

using testing::Made;
using testing::TraceBuilder;

std::vector<Phase> phases_of(const Made& made) {
  const Scopes scopes = build_scopes(made.trace, made.device());
  const Steps steps =
      find_steps(made.trace, made.device(), made.history, scopes, made.trace.events[0].time_ns);
  return find_phases(made.trace, made.device(), made.history, scopes, steps);
}

constexpr uint64_t kMegabyte = 1 << 20;

TEST(Phases, AreTheScopesInsideTheStep) {
  TraceBuilder b;
  b.alloc(kMegabyte);
  for (int i = 0; i < 6; ++i) {
    b.begin("step");
    b.begin("forward");
    const auto x = b.alloc(4 * kMegabyte);
    const auto y = b.alloc(2 * kMegabyte);
    b.begin("attention");  // inside a phase: not one itself
    b.temporary(kMegabyte);
    b.end("attention");
    b.end("forward");
    b.begin("backward");
    const auto g = b.alloc(3 * kMegabyte);
    b.free(y);
    b.free(x);
    b.end("backward");
    b.begin("optimizer");
    b.temporary(5 * kMegabyte);
    b.end("optimizer");
    b.free(g);
    b.end("step");
  }
  const std::vector<Phase> phases = phases_of(b.build());
  ASSERT_EQ(phases.size(), 4U);
  EXPECT_EQ(phases[0].name, "forward");
  EXPECT_EQ(phases[0].delta_bytes, static_cast<int64_t>(6 * kMegabyte));
  EXPECT_EQ(phases[0].peak_bytes, 8 * kMegabyte);
  EXPECT_EQ(phases[0].allocated_bytes, 7 * kMegabyte);
  EXPECT_GT(phases[0].duration_ns, 0);
  EXPECT_EQ(phases[1].name, "backward");
  EXPECT_EQ(phases[1].delta_bytes, -static_cast<int64_t>(3 * kMegabyte));
  EXPECT_EQ(phases[1].peak_bytes, 10 * kMegabyte);
  EXPECT_EQ(phases[2].name, "optimizer");
  EXPECT_EQ(phases[2].allocated_bytes, 5 * kMegabyte);
  EXPECT_EQ(phases[3].name, "other");
}

// Steps that allocate 2 and 4 MiB by turns; how many are left out as a warm-up is not this test's.
TEST(Phases, TheMedianOfAnEvenNumberLiesBetweenTheTwoInTheMiddle) {
  std::vector<uint64_t> medians;
  for (const int steps : {8, 9}) {
    TraceBuilder b;
    b.alloc(kMegabyte);
    for (int i = 0; i < steps; ++i) {
      b.begin("step");
      b.begin("forward");
      b.temporary((i % 2 == 0 ? 2 : 4) * kMegabyte);
      b.end("forward");
      b.begin("optimizer");
      b.temporary(kMegabyte);
      b.end("optimizer");
      b.end("step");
    }
    for (const Phase& phase : phases_of(b.build())) {
      if (phase.name == "forward") medians.push_back(phase.allocated_bytes);
    }
  }
  EXPECT_THAT(medians, ::testing::Contains(3 * kMegabyte));
}

TEST(Phases, ComeFromStacksWhereNoScopesAre) {
  TraceBuilder b;
  const auto forward =
      b.stack({{"/home/me/model.py", 3, "forward"}, {"/home/me/train.py", 1, "main"}});
  const auto backward = b.stack(
      {{"/x/site-packages/torch/_tensor.py", 5, "backward"}, {"/home/me/train.py", 2, "main"}});
  const auto optimizer = b.stack(
      {{"/x/site-packages/torch/optim/adam.py", 5, "step"}, {"/home/me/train.py", 3, "main"}});
  for (int i = 0; i < 6; ++i) {
    b.begin("step");
    const auto x = b.alloc(4 * kMegabyte, forward);
    const auto g = b.alloc(3 * kMegabyte, backward);
    b.temporary(kMegabyte);  // autograd's thread: no stack
    b.free(x);
    b.temporary(2 * kMegabyte, optimizer);
    b.free(g);
    b.end("step");
  }
  const std::vector<Phase> phases = phases_of(b.build());
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[0].name, "forward");
  EXPECT_EQ(phases[1].name, "backward");
  EXPECT_EQ(phases[1].allocated_bytes, 4 * kMegabyte);
  EXPECT_EQ(phases[2].name, "optimizer");
  EXPECT_EQ(phases[2].allocated_bytes, 2 * kMegabyte);
}

TEST(Phases, FollowTheCurveWhereNothingIsSaid) {
  const std::vector<Phase> phases = phases_of(testing::record({.steps = 10}));
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[0].name, "rise");
  EXPECT_EQ(phases[1].name, "fall");
  EXPECT_EQ(phases[2].name, "rest");
  EXPECT_GT(phases[0].delta_bytes, 0);
  EXPECT_LT(phases[1].delta_bytes, 0);
  EXPECT_EQ(phases[0].delta_bytes + phases[1].delta_bytes + phases[2].delta_bytes, 0);
}

TEST(Phases, NeedSteps) {
  TraceBuilder b;
  b.temporary(kMegabyte);
  EXPECT_TRUE(phases_of(b.build()).empty());
}

}  // namespace
}  // namespace vram::explain
