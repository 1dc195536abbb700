// Growth in simulations: programs whose blocks are kept for a known reason, 60 of each.
#include "explain/growth/growth.hpp"
#include "explain/steps/steps.hpp"
#include "explain/testing/trace_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <vector>

namespace vram::explain {
namespace {

constexpr uint32_t kRuns = 60;
constexpr uint64_t kKeptBytes = 1 << 18;

// Which steps keep one block more, for ever.
using BirthFlags = std::vector<bool>;
using Program = std::function<BirthFlags(std::mt19937&)>;

bool by_chance(double probability, std::mt19937& random) {
  return std::uniform_real_distribution<double>(0, 1)(random) < probability;
}

// A bounded cache with the lookup of one random key in each step; with Zipf's law the key of rank r
// is asked for in proportion to 1 / r. `filled` look-ups were before the recording.
Program cache(uint32_t steps, uint32_t keys, bool zipf, uint32_t filled = 0) {
  return [=](std::mt19937& random) {
    std::vector<double> weights;
    for (uint32_t k = 0; k < keys; ++k) weights.push_back(zipf ? 1.0 / (k + 1) : 1.0);
    std::discrete_distribution<uint32_t> key(weights.begin(), weights.end());
    std::set<uint32_t> known;
    for (uint32_t i = 0; i < filled; ++i) known.insert(key(random));
    BirthFlags births;
    for (uint32_t i = 0; i < steps; ++i) births.push_back(known.insert(key(random)).second);
    return births;
  };
}

Program every(uint32_t steps, uint32_t k) {
  return [=](std::mt19937& random) {
    const uint32_t phase = static_cast<uint32_t>(random() % k);
    BirthFlags births;
    for (uint32_t i = 0; i < steps; ++i) births.push_back(i % k == phase);
    return births;
  };
}

// In each step with the probability that `rate` gives.
Program at_random(uint32_t steps, const std::function<double(uint32_t)>& rate) {
  return [=](std::mt19937& random) {
    BirthFlags births;
    for (uint32_t i = 0; i < steps; ++i) births.push_back(by_chance(rate(i), random));
    return births;
  };
}

testing::Made run(const BirthFlags& births, std::mt19937& random) {
  testing::TraceBuilder b;
  b.alloc(8 << 20);
  for (size_t i = 0; i < births.size(); ++i) {
    b.begin("step");
    const auto activation = b.alloc((2 << 20) + random() % 4096);
    if (births[i]) b.alloc(kKeptBytes);
    b.free(activation);
    b.end("step");
  }
  return b.build();
}

// How many of kRuns runs leak according to the report.
uint32_t leaks_in(const Program& program) {
  uint32_t leaking = 0;
  for (uint32_t seed = 1; seed <= kRuns; ++seed) {
    std::mt19937 random(seed);
    const BirthFlags births = program(random);
    const testing::Made made = run(births, random);
    const Scopes scopes = build_scopes(made.trace, made.device());
    const int64_t origin = made.trace.events[0].time_ns;
    const Steps steps = find_steps(made.trace, made.device(), made.history, scopes, origin);
    const auto growth = find_growth(made.trace, made.device(), made.history, steps, origin, {});
    leaking +=
        std::ranges::any_of(growth, [](const Growth& g) { return g.kind == GrowthKind::kLeak; })
            ? 1
            : 0;
  }
  return leaking;
}

struct Case {
  const char* name;
  Program program;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

class NoLeak : public ::testing::TestWithParam<Case> {};

TEST_P(NoLeak, IsSaidToLeakInThreeOfSixtyRunsAtMost) {
  EXPECT_LE(leaks_in(GetParam().program), 3U);
}

INSTANTIATE_TEST_SUITE_P(
    Simulated, NoLeak,
    ::testing::Values(
        Case{"Cache20Steps8Keys", cache(20, 8, false)},
        Case{"Cache20Steps12Keys", cache(20, 12, false)},
        Case{"Cache40Steps24KeysZipf", cache(40, 24, true)},
        Case{"Cache80Steps40KeysZipf", cache(80, 40, true)},
        Case{"CacheKnownInPart", cache(40, 24, false, 8)},
        Case{"CacheKnownInPartZipf", cache(60, 24, true, 10)},
        Case{"WarmUpOfSixSteps", at_random(30, [](uint32_t i) { return i < 6 ? 1.0 : 0.0; })},
        Case{"WarmUpOfTwoThirds", at_random(30, [](uint32_t i) { return i < 20 ? 1.0 : 0.0; })},
        Case{"Decaying", at_random(40, [](uint32_t i) { return 0.9 * std::exp(-0.1 * i); })},
        Case{"DecayingSlowly", at_random(60, [](uint32_t i) { return 0.9 * std::exp(-0.05 * i); })},
        Case{"ThreeBirths", at_random(12, [](uint32_t i) { return i == 1 || i == 3 || i == 7; })},
        Case{"Nothing", at_random(30, [](uint32_t) { return 0.0; })}),
    name_of);

class TrueLeak : public ::testing::TestWithParam<Case> {};

TEST_P(TrueLeak, IsFoundInFiftySevenOfSixtyRunsAtLeast) {
  EXPECT_GE(leaks_in(GetParam().program), 57U);
}

// In some of the steps at random looks like a cache until many steps are seen.
INSTANTIATE_TEST_SUITE_P(
    Simulated, TrueLeak,
    ::testing::Values(Case{"EveryStepOf12", every(12, 1)}, Case{"EveryStepOf20", every(20, 1)},
                      Case{"EverySecondOf20", every(20, 2)}, Case{"EveryThirdOf20", every(20, 3)},
                      Case{"EveryFifthOf30", every(30, 5)}, Case{"EveryTenthOf60", every(60, 10)},
                      Case{"NineOfTenSteps", at_random(40, [](uint32_t) { return 0.9; })},
                      Case{"HalfOfTheSteps", at_random(80, [](uint32_t) { return 0.5; })},
                      Case{"ThirtyPercent", at_random(200, [](uint32_t) { return 0.3; })}),
    name_of);

}  // namespace
}  // namespace vram::explain
