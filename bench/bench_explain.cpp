// How fast a recording of ten million events is explained, and in how much memory: that of
// training.hpp, with stacks; and one with many patterns of waste.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_explain &&
//   build/release/bench/bench_explain

#include "explain/explain.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/site/scopes.hpp"
#include "explain/testing/planted.hpp"
#include "training.hpp"

#include <benchmark/benchmark.h>

#include <sys/resource.h>
#include <vector>

namespace vram::explain {
namespace {

constexpr uint64_t kEvents = 10'000'000;

const trace::Trace& recording() {
  static const trace::Trace made = Training(true).record(kEvents);
  return made;
}

void count(benchmark::State& state) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_rss_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(recording().events.size() * state.iterations()),
                         benchmark::Counter::kIsRate);
}

void replay(benchmark::State& state) {
  const trace::Trace& trace = recording();
  for (auto _ : state) {
    benchmark::DoNotOptimize(replay_history(trace, trace.devices[0]).lifetimes.size());
  }
  count(state);
}
BENCHMARK(replay)->Unit(benchmark::kMillisecond);

void curve(benchmark::State& state) {
  const trace::Trace& trace = recording();
  const History history = replay_history(trace, trace.devices[0]);
  const EventClock clock(trace, trace.devices[0]);
  for (auto _ : state) {
    benchmark::DoNotOptimize(draw_curve(trace, trace.devices[0], history, clock, 1000).last);
  }
  count(state);
}
BENCHMARK(curve)->Unit(benchmark::kMillisecond);

void states(benchmark::State& state) {
  const trace::Trace& trace = recording();
  const trace::DeviceTrace& device = trace.devices[0];
  const History history = replay_history(trace, device);
  const EventClock clock(trace, device);
  const Curve drawn = draw_curve(trace, device, history, clock, 1000);
  const Scopes scopes = build_scopes(trace, device);
  const Names names = find_names(trace, device, history);
  const std::vector<int64_t> events = {drawn.peak.requested.event, drawn.peak.reserved.event};
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        states_after({trace, device, history, clock, drawn, scopes, names}, events).size());
  }
  count(state);
}
BENCHMARK(states)->Unit(benchmark::kMillisecond);

void whole(benchmark::State& state) {
  const trace::Trace& trace = recording();
  for (auto _ : state) benchmark::DoNotOptimize(explain(trace).has_value());
  count(state);
}
BENCHMARK(whole)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

// Gradients that live through the next forward pass, evaluations with a graph, results and batches
// kept too long, and a temporary at the peak.
const trace::Trace& wasteful_recording() {
  static testing::PlantedTraining training;
  static const trace::Trace& made = []() -> const trace::Trace& {
    training.layers = 500;
    training.steps = 1'120;
    training.zeroes_late = true;
    static std::vector<uint64_t> results;
    static std::vector<uint64_t> batches;
    const auto keep = [](std::vector<uint64_t>& kept, size_t count) {
      if (kept.size() <= count) return;
      training.p.free(kept.front());
      kept.erase(kept.begin());
    };
    training.at_start = [keep](uint32_t) {
      std::vector<uint64_t> graph;
      training.forward(2 * training.kActivation, graph, "/home/me/eval.py");
      training.p.free_all(graph);
      batches.push_back(training.p.alloc(kGiB, 0, 7));
      keep(batches, 2);
    };
    training.after_forward = [keep](uint32_t) {
      results.push_back(training.p.alloc(kGiB, training.p.in_module(5000)));
      keep(results, 1);
      training.p.free(training.p.alloc(4 * kGiB, training.p.in_module(5001)));
    };
    training.run();
    return training.p.finish();
  }();
  return made;
}

void wasteful(benchmark::State& state) {
  const trace::Trace& trace = wasteful_recording();
  size_t findings = 0;
  for (auto _ : state) findings = explain(trace)->devices[0].findings.size();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["events"] = static_cast<double>(trace.events.size());
  state.counters["findings"] = static_cast<double>(findings);
  state.counters["peak_rss_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}
BENCHMARK(wasteful)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

}  // namespace
}  // namespace vram::explain
