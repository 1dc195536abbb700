// How fast a recording of ten million events is explained, and in how much memory: that of
// training.hpp, with stacks.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_explain &&
//   build/release/bench/bench_explain

#include "explain/explain.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/site/scopes.hpp"
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
BENCHMARK(whole)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vram::explain
