// FlightRules: programs that grow or fragment, and those that resemble them.
#include "record/file/flight_rules.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace vram::record {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A program's records, judged one by one.
class Program {
 public:
  void step() { add({.op = Op::kStep}); }
  uint64_t alloc(uint64_t bytes) {
    const uint64_t address = next_++ << 40;
    add({.address = address, .size_bytes = bytes, .op = Op::kAlloc});
    live_.add({.address = address, .size_bytes = bytes});
    return address;
  }
  void free(uint64_t address) {
    add({.address = address, .op = Op::kFreeCompleted});
    live_.remove({.address = address});
  }
  void take_from_device(uint64_t bytes) {
    const Record segment{.address = next_++ << 40, .size_bytes = bytes, .op = Op::kSegmentAlloc};
    add(segment);
    live_.map(segment);
  }
  // How often each rule has fired.
  [[nodiscard]] const std::map<DumpReason, int>& fired() const { return fired_; }

 private:
  void add(const Record& record) {
    rules_.add(record, live_);
    if (const auto fired = rules_.take()) ++fired_[fired->reason];
  }
  FlightRules rules_{{}};
  LiveMemory live_;
  uint64_t next_ = 1;
  std::map<DumpReason, int> fired_;
};

using Fired = std::map<DumpReason, int>;

// Activations of a changing shape, freed in the step.
void work(Program& program, std::mt19937& random) {
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(program.alloc((20 + random() % 400) * kMiB));
  for (const uint64_t block : blocks) program.free(block);
}

class GrowthTest : public testing::TestWithParam<uint64_t> {};

// In each step, every third, or by 64 KiB a step.
TEST_P(GrowthTest, ALeakFires) {
  std::mt19937 random(GetParam());
  for (const auto& [every, bytes, steps] :
       {std::tuple{1, 4 * kMiB, 200}, std::tuple{3, 12 * kMiB, 200},
        std::tuple{1, kMiB / 16, 5000}}) {
    Program program;
    for (int step = 0; step < steps; ++step) {
      program.step();
      work(program, random);
      if (step % every == 0) (void)program.alloc(bytes);
    }
    EXPECT_GE(program.fired().at(DumpReason::kGrowth), 1) << bytes;
  }
}

TEST_P(GrowthTest, ASteadyProgramFiresNever) {
  std::mt19937 random(GetParam());
  Program program;
  (void)program.alloc(3000 * kMiB);
  uint64_t prefetched = program.alloc(64 * kMiB);
  for (int step = 0; step < 3000; ++step) {
    program.step();
    work(program, random);
    program.free(prefetched);
    prefetched = program.alloc((10 + random() % 200) * kMiB);
  }
  EXPECT_EQ(program.fired(), Fired{});
}

// Another model, loaded once; a cache that is full after a while.
TEST_P(GrowthTest, WhatStopsGrowingFiresAtMostOnce) {
  std::mt19937 random(GetParam());
  Program program;
  for (int step = 0; step < 3000; ++step) {
    program.step();
    work(program, random);
    if (step == 700) (void)program.alloc(2000 * kMiB);
  }
  EXPECT_EQ(program.fired(), Fired{}) << "a single step up";
}

// Each file needs twice the growth of the one before.
TEST_P(GrowthTest, EndlessGrowthLeavesFewFiles) {
  std::mt19937 random(GetParam());
  Program program;
  for (int step = 0; step < 20'000; ++step) {
    program.step();
    work(program, random);
    (void)program.alloc(4 * kMiB);  // 80 GB in all
  }
  EXPECT_GE(program.fired().at(DumpReason::kGrowth), 3);
  EXPECT_LE(program.fired().at(DumpReason::kGrowth), 11);
}

INSTANTIATE_TEST_SUITE_P(Seeds, GrowthTest, testing::Range<uint64_t>(1, 6));

TEST(FlightRulesTest, ARequestToTheDeviceDespiteUnusedMemoryFires) {
  Program program;
  program.take_from_device(4000 * kMiB);
  (void)program.alloc(3000 * kMiB);
  program.take_from_device(600 * kMiB);
  EXPECT_EQ(program.fired(), (Fired{{DumpReason::kFragmentation, 1}}));
  program.take_from_device(600 * kMiB);  // 1,600 MiB are unused: more than twice 512
  EXPECT_EQ(program.fired(), (Fired{{DumpReason::kFragmentation, 2}}));
  program.take_from_device(600 * kMiB);  // 2,200: more than four times
  program.take_from_device(600 * kMiB);
  EXPECT_EQ(program.fired(), (Fired{{DumpReason::kFragmentation, 3}}));
}

TEST(FlightRulesTest, ARequestThatTheUnusedMemoryIsTooSmallForIsSilent) {
  Program program;
  program.take_from_device(4000 * kMiB);
  (void)program.alloc(3000 * kMiB);
  program.take_from_device(2000 * kMiB);
  EXPECT_EQ(program.fired(), Fired{});
}

TEST(FlightRulesTest, TheFirstStepsAreSilent) {
  Program program;
  program.take_from_device(4000 * kMiB);
  for (int step = 0; step < 5; ++step) program.step();
  program.take_from_device(600 * kMiB);
  EXPECT_EQ(program.fired(), Fired{});
}

}  // namespace
}  // namespace vram::record
