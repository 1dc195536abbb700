// How long the planner takes for chains of 300 and 1000 random stages, how large its table is, and
// how much time its schedule adds to the step, at 30 %, 10 % and 5 % of what keeping everything
// needs, with tables of up to 500, 2000 and 8000 slots; and what Chen's and Revolve's schedules
// add.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_plan &&
//   build/release/bench/bench_plan

#include "plan/solve/rotor.hpp"
#include "plan/solve/solvers.hpp"

#include <benchmark/benchmark.h>

#include <limits>
#include <random>

namespace vram::plan {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// Outputs of 50 to 150 MB; a stage keeps its output and two to six times as much, and takes 0.5 to
// 1.5 ms forward and twice that backward.
Chain random_chain(uint32_t stages) {
  std::mt19937_64 random(1);
  const auto near = [&](double mean) {
    return static_cast<uint64_t>(mean * (0.5 + static_cast<double>(random() % 1'000'001) / 1e6));
  };
  Chain chain;
  chain.input_bytes = near(1e8);
  for (uint32_t i = 0; i < stages; ++i) {
    Stage& stage = chain.stages.emplace_back();
    stage.output_bytes = near(1e8);
    stage.forward_ns = near(1e6);
    stage.forward_peak_bytes = stage.output_bytes;
    Option option;
    option.kept_bytes = stage.output_bytes + near(4 * static_cast<double>(stage.output_bytes));
    option.forward_ns = stage.forward_ns;
    option.backward_ns = 2 * stage.forward_ns;
    option.forward_peak_bytes = option.kept_bytes;
    option.backward_peak_bytes = option.kept_bytes;
    stage.options.push_back(option);
  }
  return chain;
}

struct Problem {
  Chain chain;
  uint64_t budget_bytes = 0;
  uint64_t ideal_ns = 0;
};

Problem problem_of(const benchmark::State& state) {
  Problem problem{.chain = random_chain(static_cast<uint32_t>(state.range(0)))};
  const Schedule all = keep_all(problem.chain, kUnlimited).value();
  problem.budget_bytes = all.cost.peak_bytes / 100 * static_cast<uint64_t>(state.range(1));
  problem.ideal_ns = all.cost.time_ns;
  return problem;
}

double added_percent(const Problem& problem, uint64_t time_ns) {
  return 100 * (static_cast<double>(time_ns) / static_cast<double>(problem.ideal_ns) - 1);
}

void solve_rotor(benchmark::State& state) {
  const Problem problem = problem_of(state);
  const RotorSettings settings{.slots = static_cast<uint32_t>(state.range(2))};
  RotorSchedule found;
  for (auto _ : state) found = rotor(problem.chain, problem.budget_bytes, settings).value();
  state.counters["added_%"] = added_percent(problem, found.schedule.cost.time_ns);
  state.counters["bound_%"] =
      added_percent(problem, lower_bound_ns(problem.chain, problem.budget_bytes));
  state.counters["table_MB"] = static_cast<double>(found.table_bytes) / 1e6;
  state.counters["window"] = found.window;
}
BENCHMARK(solve_rotor)
    ->ArgNames({"stages", "budget_%", "slots"})
    ->ArgsProduct({{300, 1000}, {30, 10, 5}, {500, 2000, 8000}})
    ->Unit(benchmark::kMillisecond);

void solve_baseline(benchmark::State& state, decltype(chen)* solver) {
  const Problem problem = problem_of(state);
  Result<Schedule> found;
  for (auto _ : state) found = solver(problem.chain, problem.budget_bytes);
  if (!found) return state.SkipWithError(found.error().message.c_str());
  state.counters["added_%"] = added_percent(problem, found->cost.time_ns);
}
BENCHMARK_CAPTURE(solve_baseline, chen, chen)
    ->ArgNames({"stages", "budget_%"})
    ->ArgsProduct({{300, 1000}, {30, 10, 5}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(solve_baseline, revolve, revolve)
    ->ArgNames({"stages", "budget_%"})
    ->ArgsProduct({{300, 1000}, {30, 10, 5}})
    ->Unit(benchmark::kMillisecond);

void smallest_budget(benchmark::State& state) {
  const Chain chain = random_chain(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(smallest_budget_bytes(chain));
}
BENCHMARK(smallest_budget)->Arg(300)->Arg(1000)->Arg(2000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vram::plan
