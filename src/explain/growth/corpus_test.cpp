// The corpus: random jobs of the zoo, with a planted leak and without, with stacks and without.
// The constants of growth and steps were chosen on the 2,000 jobs from kDefaultFirstSeed on, those
// of the places at which steps end on the odd seeds from 100,001 to 105,999, and those of lives and
// rhythms also on the 1,000 jobs from 500,001 on. docs/report.md states the figures of jobs that
// no constant was chosen on: VRAM_CORPUS_JOBS=2000 of VRAM_CORPUS_SEED=610001, 620001 and 630001,
// whose counts --gtest_output=xml writes.

#include "explain/growth/growth.hpp"
#include "explain/steps/steps.hpp"
#include "explain/testing/growth.hpp"
#include "explain/testing/trace_builder.hpp"
#include "explain/testing/zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace vram::explain {
namespace {

using testing::Job;
using testing::Made;

constexpr uint32_t kDefaultFirstSeed = 10'001;
constexpr uint32_t kDefaultJobs = 500;
constexpr uint32_t kLeakingSteps = 10;

uint32_t setting(const char* name, uint32_t without) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? without : static_cast<uint32_t>(std::stoul(value));
}

// A warm-up of 4 to 15 steps, kLeakingSteps more, and some of the habits of real jobs.
Job random_job(uint32_t seed) {
  std::mt19937 random(seed);
  const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
  const auto up_to = [&](uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random() % (high - low + 1));
  };
  Job job = {.seed = seed, .layers = up_to(6, 14)};
  job.leak_from = up_to(4, 15);
  job.steps = job.leak_from + kLeakingSteps;
  job.variable_length = chance(0.5);
  if (chance(0.3)) job.accumulation = up_to(2, 4);
  if (chance(0.3)) job.evaluate_every = up_to(3, 8);
  if (chance(0.3)) job.cached_shapes = up_to(2, 10);
  if (chance(0.3)) job.collect_every = up_to(2, 7);
  if (chance(0.3)) job.last_losses = up_to(2, 8);
  if (chance(0.5)) job.noise = up_to(1, 6);
  if (chance(0.3)) job.common = up_to(1, 3);
  if (chance(0.3)) job.prefetched = up_to(1, 4);
  return job;
}

uint64_t peak_of(const Job& job) {
  uint64_t live = 0;
  uint64_t peak = 0;
  for (const trace::Event& e : testing::record(job).trace.events) {
    if (e.kind == trace::EventKind::kAlloc) live += e.size_bytes;
    if (e.kind == trace::EventKind::kFreeCompleted) live -= e.size_bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

struct Judged {
  std::vector<Growth> leaks;
  double steps = 0;
};

Judged leaks_of(const Job& job) {
  const Made made = testing::record(job);
  const Steps steps = testing::steps_of(made);
  std::vector<Growth> growth = testing::growth_of(made, steps);
  std::erase_if(growth, [](const Growth& g) { return g.kind != GrowthKind::kLeak; });
  return {std::move(growth), static_cast<double>(steps.steps.size())};
}

struct Counts {
  uint32_t jobs = 0;
  uint32_t found = 0;         // planted leaks, with their bytes a step
  uint32_t false_alarms = 0;  // jobs with a leak that was not planted
};

std::string described(const Job& job, const std::vector<Growth>& leaks) {
  std::string text = "seed " + std::to_string(job.seed);
  if (job.annotated) text += ", annotated";
  if (job.variable_length) text += ", variable";
  text += ", accumulation " + std::to_string(job.accumulation) + ", steps " +
          std::to_string(job.steps) + ", leak of " + std::to_string(job.leak_bytes) + ":";
  for (const Growth& g : leaks) text += " " + g.site + " " + std::to_string(g.bytes_per_step) + ";";
  return text + "\n";
}

// Without marks the passes of a step may be taken for steps: the rate is then that of a pass. Steps
// at the edges of the recording may be missing, which does not change the rate.
Counts count(bool leaks, bool has_stacks, bool annotated, std::string* misses) {
  Counts counts;
  const uint32_t first = setting("VRAM_CORPUS_SEED", kDefaultFirstSeed);
  const uint32_t jobs = setting("VRAM_CORPUS_JOBS", kDefaultJobs);
  for (uint32_t seed = first; seed < first + jobs; ++seed) {
    Job job = random_job(seed);
    job.has_stacks = has_stacks;
    job.annotated = annotated;
    job.common_bytes = peak_of(job) / 1000;
    if (leaks) job.leak_bytes = job.common_bytes;
    const Judged found = leaks_of(job);
    const auto is_planted = [&](const Growth& g) {
      const double share = g.bytes_per_step / static_cast<double>(job.leak_bytes);
      const double of_passes = share * std::max(1.0, found.steps / job.steps);
      return leaks && std::min(std::abs(share - 1), std::abs(of_passes - 1)) < 0.05 &&
             (!has_stacks || g.site == "train.py:42 hook");
    };
    const auto planted = static_cast<size_t>(std::ranges::count_if(found.leaks, is_planted));
    ++counts.jobs;
    counts.found += planted == 1 ? 1 : 0;
    counts.false_alarms += found.leaks.size() > planted ? 1 : 0;
    if (found.leaks.size() > planted || (leaks && planted == 0))
      *misses += described(job, found.leaks);
  }
  const std::string steps = annotated ? "annotated" : "unannotated";
  ::testing::Test::RecordProperty("found_" + steps, static_cast<int>(counts.found));
  ::testing::Test::RecordProperty("false_alarms_" + steps, static_cast<int>(counts.false_alarms));
  return counts;
}

class Corpus : public ::testing::TestWithParam<bool> {};

TEST_P(Corpus, LeaksAreFoundWithinTenSteps) {
  std::string misses;
  const Counts counts = count(true, GetParam(), true, &misses);
  EXPECT_GE(counts.found, counts.jobs * 99 / 100) << misses;
  EXPECT_LE(counts.false_alarms, counts.jobs / 100) << misses;
}

// Most others have evaluations after every third step, whose steps are not all found, or a cache
// that fills in the same steps.
TEST_P(Corpus, LeaksAreFoundInNearlyAllJobsWithoutMarks) {
  std::string misses;
  const Counts counts = count(true, GetParam(), false, &misses);
  EXPECT_GE(counts.found, counts.jobs * 99 / 100) << misses;
  EXPECT_LE(counts.false_alarms, counts.jobs / 100) << misses;
}

TEST_P(Corpus, JobsWithoutALeakRaiseNoAlarm) {
  for (const bool annotated : {true, false}) {
    std::string misses;
    const Counts counts = count(false, GetParam(), annotated, &misses);
    EXPECT_LE(counts.false_alarms, counts.jobs / 100) << misses;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, Corpus, ::testing::Bool(),
                         [](const auto& jobs) { return jobs.param ? "Stacks" : "NoStacks"; });

}  // namespace
}  // namespace vram::explain
