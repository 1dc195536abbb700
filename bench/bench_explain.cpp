// How fast a recording of ten million events is explained, and in how much memory. The recording is
// synthetic: training steps on a simulated caching allocator, with stacks, step annotations, a side
// stream and a slow leak.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_explain &&
//   build/release/bench/bench_explain

#include "base/bytes.hpp"
#include "explain/explain.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/site/scopes.hpp"
#include "explain/testing/caching_allocator.hpp"

#include <benchmark/benchmark.h>

#include <array>
#include <random>
#include <sys/resource.h>
#include <vector>

namespace vram::explain {
namespace {

constexpr uint64_t kEvents = 10'000'000;
constexpr uint32_t kStacks = 500;

class Training {
 public:
  trace::Trace record() {
    trace_.has_time = true;
    allocator_.record_into(&trace_);
    intern_stacks();
    for (int i = 0; i < 2000; ++i) allocate(1 + random_() % (8 * kMiB), 0);  // weights
    const auto step = trace_.tables.strings.intern("ProfilerStep");
    while (trace_.events.size() < kEvents) {
      annotate(step, true);
      run_step();
      annotate(step, false);
    }
    trace::DeviceTrace& device = trace_.devices.emplace_back();
    device.event_count = trace_.events.size();
    allocator_.write_end_state(device);
    return std::move(trace_);
  }

 private:
  void intern_stacks() {
    trace_.has_stacks = true;
    const auto file = trace_.tables.strings.intern("/home/me/train.py");
    std::vector<trace::FrameId> frames(20);
    for (uint32_t s = 0; s < kStacks; ++s) {
      for (uint32_t depth = 0; depth < frames.size(); ++depth) {
        const auto name = trace_.tables.strings.intern("f" + std::to_string(s * 7 % 101 + depth));
        frames[depth] = trace_.tables.frames.intern({name, file, s + depth, 0, 0});
      }
      trace_.tables.stacks.intern(frames);
    }
  }
  uint64_t allocate(uint64_t bytes, uint32_t site) {
    const uint64_t block = allocator_.allocate(bytes);
    trace_.events.back().stack = 1 + site % kStacks;
    return block;
  }
  void annotate(trace::StringId name, bool is_begin) {
    const int64_t time_ns = trace_.events.back().time_ns + 1;
    trace_.annotations.push_back({time_ns, name, 0, is_begin, {}});
  }
  // Activations pile up in the forward pass; each layer of the backward pass has temporaries and
  // frees its own.
  void run_step() {
    std::vector<uint64_t> activations;
    const uint64_t batch = 1 + random_() % 4;
    for (uint32_t layer = 0; layer < 600; ++layer) {
      activations.push_back(allocate(batch * (kSizes[layer % kSizes.size()] + layer % 7), layer));
      allocator_.free(allocate(batch * 70'000, layer + 1));
    }
    for (uint32_t layer = 600; layer-- > 0;) {
      const uint64_t gradient = allocate(batch * kSizes[layer % kSizes.size()], layer + 2);
      allocator_.free(allocate(4096, layer + 3));
      allocator_.free(activations[layer], layer % 50 == 0);
      if (layer % 50 == 0) allocator_.complete(activations[layer]);
      allocator_.free(gradient);
    }
    allocate(100, 499);  // the leak
  }

  static constexpr std::array<uint64_t, 5> kSizes = {900, 200'000, 1'500'000, 6'000'000,
                                                     12'000'000};
  testing::CachingAllocator allocator_{AllocatorRules{}};
  std::mt19937_64 random_{1};
  trace::Trace trace_;
};

const trace::Trace& recording() {
  static const trace::Trace made = Training().record();
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
