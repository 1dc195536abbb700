// How fast the peers replay: the demo recording, and a synthetic program of a million requests and
// frees; how long the search for the smallest capacity takes on the latter, and the tuner on both,
// on every core.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_replay &&
//   build/release/bench/bench_replay

#include "base/bytes.hpp"
#include "replay/capacity.hpp"
#include "replay/run.hpp"
#include "replay/tune/tune.hpp"
#include "trace/open.hpp"

#include <benchmark/benchmark.h>

#include <array>
#include <random>
#include <vector>

namespace vram::replay {
namespace {

Program demo_program() {
  const auto trace = trace::open_trace(VRAM_DEMO "/unet_multiscale.pickle.xz");
  if (!trace) return {};
  return make_program(*trace, trace->devices[0]);
}

// Training steps: activations pile up and are freed in reverse, with temporaries; batch sizes
// change; a side stream.
Program synthetic_program(size_t ops) {
  std::mt19937_64 random(1);
  Program program;
  program.stream_count = 2;
  program.stream_handles = {0, 4096};
  const auto add = [&](OpKind kind, uint32_t block, uint64_t bytes, trace::StreamId stream) {
    const auto event = static_cast<uint32_t>(program.ops.size());
    program.ops.push_back({.time_ns = int64_t{event} * 1000,
                           .size_bytes = bytes,
                           .block = block,
                           .event = event,
                           .stream = stream,
                           .kind = kind});
  };
  const auto alloc = [&](uint64_t bytes, trace::StreamId stream = 0) {
    add(OpKind::kAlloc, program.block_count, bytes, stream);
    return program.block_count++;
  };
  constexpr std::array<uint64_t, 5> kSizes{20'000, 300'000, 1'200'000, 4'000'000, 17'000'000};
  for (int i = 0; i < 2000; ++i) alloc(1 + random() % (4 * kMiB));  // weights
  while (program.ops.size() < ops) {
    const uint64_t batch = 1 + random() % 4;
    std::vector<uint32_t> activations;
    const uint32_t input = alloc(batch * 5'000'000, 1);
    for (size_t layer = 0; layer < 400; ++layer) {
      activations.push_back(alloc(batch * (kSizes[layer % kSizes.size()] + layer)));
      add(OpKind::kFree, alloc(batch * 70'000), 0, 0);
    }
    add(OpKind::kFreeLater, input, 0, 1);
    add(OpKind::kComplete, input, 0, 1);
    for (; !activations.empty(); activations.pop_back()) {
      const uint32_t gradient = alloc(batch * kSizes[activations.size() % kSizes.size()]);
      add(OpKind::kFree, activations.back(), 0, 0);
      add(OpKind::kFree, gradient, 0, 0);
    }
  }
  program.duration_ns = static_cast<int64_t>(program.ops.size()) * 1000;
  return program;
}

constexpr std::array kSpecs{
    "torch", "torch:expandable_segments=True", "cupy", "rmm_pool", "tf_bfc", "cuda_async",
    "gmlake"};
constexpr int64_t kLastSpec = kSpecs.size() - 1;

void replay_program(benchmark::State& state, const Program& program) {
  const AllocatorSpec spec = parse_spec(kSpecs[static_cast<size_t>(state.range(0))]).value();
  state.SetLabel(spec.to_string());
  for (auto _ : state) {
    benchmark::DoNotOptimize(run(program, *find_peer(spec.name), spec, {}));
  }
  state.counters["ops"] = benchmark::Counter(
      static_cast<double>(program.ops.size()) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

void demo(benchmark::State& state) {
  static const Program kProgram = demo_program();
  if (kProgram.ops.empty()) return state.SkipWithError("run it where demo/ is");
  replay_program(state, kProgram);
}
BENCHMARK(demo)->DenseRange(0, kLastSpec)->Unit(benchmark::kMillisecond);

void synthetic(benchmark::State& state) {
  static const Program kProgram = synthetic_program(1'000'000);
  replay_program(state, kProgram);
}
BENCHMARK(synthetic)->DenseRange(0, kLastSpec)->Unit(benchmark::kMillisecond);

void min_capacity(benchmark::State& state) {
  static const Program kProgram = synthetic_program(1'000'000);
  const AllocatorSpec spec = parse_spec(kSpecs[static_cast<size_t>(state.range(0))]).value();
  state.SetLabel(spec.to_string());
  for (auto _ : state) {
    const auto found = find_min_capacity(kProgram, *find_peer(spec.name), spec, {});
    state.counters["MiB"] = static_cast<double>(found.value_or(MinCapacity{}).capacity_bytes) /
                            static_cast<double>(kMiB);
  }
}
BENCHMARK(min_capacity)->DenseRange(0, kLastSpec)->Unit(benchmark::kSecond)->Iterations(1);

void tuner(benchmark::State& state) {
  static const std::array<Program, 2> kPrograms{demo_program(), synthetic_program(1'000'000)};
  const Program& program = kPrograms[static_cast<size_t>(state.range(0))];
  if (program.ops.empty()) return state.SkipWithError("run it where demo/ is");
  state.SetLabel(state.range(0) == 0 ? "demo" : "synthetic");
  size_t replays = 0;
  for (auto _ : state) replays += tune(program, {.name = "torch", .settings = {}}, {}).replays;
  state.counters["replays"] =
      benchmark::Counter(static_cast<double>(replays), benchmark::Counter::kIsRate);
}
BENCHMARK(tuner)->DenseRange(0, 1)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace vram::replay
