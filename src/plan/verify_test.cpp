#include "plan/verify.hpp"

#include "plan/testing/chains.hpp"

#include <gtest/gtest.h>

namespace vram::plan {
namespace {

using testing::kUnlimited;

using enum OpKind;

// Two stages: 100 bytes fixed, 10 of input; outputs of 20 and 4, which keep 50 and 30.
Chain two_stages() {
  Chain chain;
  chain.fixed_bytes = 100;
  chain.input_bytes = 10;
  chain.stages.resize(2);
  Stage& first = chain.stages[0];
  first.output_bytes = 20;
  first.gradient_bytes = 20;
  first.parameter_gradient_bytes = 7;
  first.forward_ns = 5;
  first.forward_peak_bytes = 22;
  testing::add_option(first, 50, 6, 11);
  first.options[0].forward_peak_bytes = 55;
  first.options[0].backward_peak_bytes = 90;
  Stage& last = chain.stages[1];
  last.output_bytes = 4;
  last.gradient_bytes = 4;
  last.parameter_gradient_bytes = 3;
  last.forward_ns = 7;
  last.forward_peak_bytes = 4;
  testing::add_option(last, 30, 8, 15);
  last.options[0].backward_peak_bytes = 60;
  return chain;
}

Cost cost_of(const Chain& chain, std::vector<Operation> operations) {
  return verify(chain, operations, kUnlimited).value();
}

std::string verify_refusal(const Chain& chain, std::vector<Operation> operations,
                           uint64_t budget_bytes = kUnlimited) {
  const auto refused = verify(chain, operations, budget_bytes);
  return refused ? "" : refused.error().message;
}

TEST(Verify, AddsUpTheBytesOfEveryOperation) {
  const Chain chain = two_stages();
  // 110 + 50 kept + 60 in the last backward; 110 + 3 of gradients + 90 in the first one.
  const Cost kept =
      cost_of(chain, {{kForwardSave, 0}, {kForwardSave, 1}, {kBackward, 1}, {kBackward, 0}});
  EXPECT_EQ(kept.peak_bytes, 220u);
  EXPECT_EQ(kept.peak_operation, 2u);
  EXPECT_EQ(kept.time_ns, 6u + 8 + 15 + 11);
  // 110 + 20 of the checkpoint + 60; then 110 + 20 + 3 of gradients + 55 in the second forward, and
  // 110 + 3 + 90.
  const Cost again = cost_of(chain, {{kForwardKeepInput, 0},
                                     {kForwardSave, 1},
                                     {kBackward, 1},
                                     {kDiscard, 0},
                                     {kForwardSave, 0},
                                     {kBackward, 0}});
  EXPECT_EQ(again.peak_bytes, 203u);
  EXPECT_EQ(again.peak_operation, 5u);
  EXPECT_EQ(again.time_ns, 5u + 8 + 15 + 6 + 11);
}

TEST(Verify, CountsOffloadedBytesWhileTheyAreOnTheDevice) {
  Chain chain = two_stages();
  Option& option = chain.stages[0].options[0];
  option.kept_bytes = 20;
  option.offloaded_bytes = 30;
  option.offload_ns = 100;
  option.fetch_ns = 1000;
  const Cost cost = cost_of(chain, {{kForwardSave, 0},
                                    {kOffload, 0},
                                    {kForwardSave, 1},
                                    {kBackward, 1},
                                    {kFetch, 0},
                                    {kBackward, 0}});
  EXPECT_EQ(cost.peak_bytes, 110u + 3 + 90);  // 110 + 20 + 60 in the last backward
  EXPECT_EQ(cost.host_peak_bytes, 30u);
  EXPECT_EQ(cost.time_ns, 6u + 100 + 8 + 15 + 1000 + 11);
  EXPECT_EQ(
      verify_refusal(
          chain,
          {{kForwardSave, 0}, {kOffload, 0}, {kForwardSave, 1}, {kBackward, 1}, {kBackward, 0}}),
      "operation 4: stage 0 runs backward before its offloaded bytes were fetched");
}

TEST(Verify, RefusesWhatCannotRun) {
  const Chain chain = two_stages();
  EXPECT_EQ(verify_refusal(chain, {{kForward, 1}}),
            "operation 0: stage 1 reads an input that is not there");
  EXPECT_EQ(verify_refusal(chain, {{kForwardSave, 0}, {kForwardKeepInput, 0}}),
            "operation 1: stage 0 computes an output that is already there");
  EXPECT_EQ(verify_refusal(chain, {{kForwardSave, 0}, {kForward, 1}}),
            "operation 1: stage 0 frees an output that is not a checkpoint");
  EXPECT_EQ(verify_refusal(chain, {{kForwardSave, 0}, {kBackward, 0}}),
            "operation 1: stage 0 runs backward out of order");
  EXPECT_EQ(verify_refusal(chain, {{kForwardKeepInput, 0}, {kForwardKeepInput, 1}, {kBackward, 1}}),
            "operation 2: stage 1 runs backward without what forward keeps for it");
  EXPECT_EQ(verify_refusal(chain, {{kForwardSave, 0, 1}}),
            "operation 0: stage 0 has no such option");
  EXPECT_EQ(verify_refusal(chain, {{kForwardSave, 2}}), "operation 0: stage 2 of 2 stages");
  EXPECT_EQ(verify_refusal(chain, {{kDiscard, 0}}),
            "operation 0: stage 0 frees an output that is not a checkpoint");
  EXPECT_EQ(verify_refusal(chain, {{kOffload, 0}}),
            "operation 0: stage 0 offloads what is not on the device");
}

TEST(Verify, RefusesSchedulesThatEndEarlyOrLeaveSomething) {
  const Chain chain = two_stages();
  EXPECT_EQ(verify_refusal(chain, {{kForwardSave, 0}}),
            "the schedule ends after 1 operations before the backward of stage 1");
  EXPECT_EQ(verify_refusal(chain, {}),
            "the schedule ends after 0 operations before the backward of stage 1");
  const Chain one = testing::equal_chain(2, 1, 1);
  EXPECT_EQ(verify_refusal(one, {{kForwardKeepInput, 0},
                                 {kForwardSave, 1},
                                 {kBackward, 1},
                                 {kDiscard, 0},
                                 {kForwardSave, 0},
                                 {kBackward, 0},
                                 {kForwardKeepInput, 0}}),
            "operation 6: stage 0 runs forward after its backward");
}

TEST(Verify, ComparesThePeakWithTheBudget) {
  const Chain chain = two_stages();
  const std::vector<Operation> operations{
      {kForwardSave, 0}, {kForwardSave, 1}, {kBackward, 1}, {kBackward, 0}};
  EXPECT_TRUE(verify(chain, operations, 220));
  EXPECT_EQ(verify_refusal(chain, operations, 219),
            "operation 2 (stage 1) needs 220 B (220 bytes); the budget is 219 B (219 bytes)");
  EXPECT_NE(verify_refusal(chain, operations, 100), "");
}

}  // namespace
}  // namespace vram::plan
