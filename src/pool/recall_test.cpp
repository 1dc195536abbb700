#include "pool/recall.hpp"

#include <gtest/gtest.h>

namespace vram::pool {
namespace {

// Steps of 100 requests of different sizes, answered with their number in all.
Recall::Answer request(Recall& recall, uint64_t number, uint64_t in_step) {
  const Recall::Answer expected = recall.expect(512 * (in_step + 1), 1);
  recall.note({.address = number});
  return expected;
}

TEST(RecallTest, AProgramThatRepeatsItselfIsExpectedToGoWhereItWentTheLastTime) {
  Recall recall;
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(request(recall, 1000 + i, i).address, 0u);
  uint64_t expected = 0;
  for (uint64_t i = 100; i < 400; ++i) {
    const Recall::Answer answer = request(recall, 1000 + i, i % 100);
    if (answer.address == 0) continue;
    ++expected;
    EXPECT_EQ(answer.address, 1000 + i - 100);
  }
  EXPECT_GT(expected, 200u) << "all but the beginning of the second step";
}

TEST(RecallTest, WhatDiffersIsNotExpected) {
  Recall recall;
  for (uint64_t i = 0; i < 300; ++i) (void)request(recall, 1000 + i, i % 100);
  EXPECT_EQ(request(recall, 5000, 777).address, 0u);
  EXPECT_EQ(recall.expect(512, 2).address, 0u) << "another stream";
}

// A step of twelve like layers: memory goes where the same layer was, not where the last one was.
TEST(RecallTest, LayersAreNotTakenForSteps) {
  Recall recall;
  uint64_t wrong = 0;
  uint64_t right = 0;
  uint64_t number = 1000;
  for (uint64_t step = 0; step < 6; ++step) {
    for (uint64_t i = 0; i < 20; ++i) (void)request(recall, number++, 100 + i);
    for (uint64_t i = 0; i < 12 * 5; ++i, ++number) {
      const Recall::Answer answer = request(recall, number, i % 5);
      if (answer.address == 0) continue;
      ++(answer.address == number - 80 ? right : wrong);
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(right, 200u);
}

}  // namespace
}  // namespace vram::pool
