// How long the pool takes for an operation, beside the driver: recorded sequences of requests and
// frees, again and again on one pool, so that it is warm. The simulated GPU's own arithmetic is in
// the figure where the pool calls the driver; `slow` is the share of requests that got there.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_pool &&
//   build/release/bench/bench_pool            # demo/, or: VRAM_TRACES=FOLDER bench_pool

#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "pool/pool.hpp"
#include "replay/program.hpp"
#include "trace/open.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace vram {
namespace {

using replay::Op;
using replay::OpKind;

class Player {
 public:
  explicit Player(const replay::Program& program)
      : program_(program), device_(gpu_, 0), pool_(device_), blocks_(program.block_count) {}

  // All blocks are gone afterwards.
  void play() {
    for (const Op& op : program_.ops) step(op);
    for (const pool::BlockId block : blocks_) {
      pool_.finish(block);
      if (pool_.is_live(block)) pool_.free(block);
    }
  }
  [[nodiscard]] const pool::Stats& stats() const { return pool_.stats(); }

 private:
  void step(const Op& op) {
    if (op.kind == OpKind::kAlloc) {
      blocks_[op.block] = pool_.allocate(op.size_bytes, program_.stream_handles[op.stream]).block;
    } else if (op.kind == OpKind::kFree) {
      pool_.free(blocks_[op.block]);
    } else if (op.kind == OpKind::kFreeLater) {
      pool_.hold(blocks_[op.block]);
    } else if (op.kind == OpKind::kComplete) {
      pool_.finish(blocks_[op.block]);
    }
  }

  const replay::Program& program_;
  gpu::SimGpu gpu_;
  pool::DeviceOn<gpu::SimGpu> device_;
  pool::Pool pool_;
  std::vector<pool::BlockId> blocks_;
};

void recorded(benchmark::State& state, const std::string& path) {
  const auto trace = trace::open_trace(path);
  if (!trace) return state.SkipWithError("can't be read");
  const replay::Program program = replay::make_program(*trace, trace->devices[0]);
  Player player(program);
  player.play();
  const pool::Stats before = player.stats();
  for (auto _ : state) player.play();
  const auto requests = player.stats().allocation.allocated - before.allocation.allocated;
  const auto slow = player.stats().slow_requests - before.slow_requests;
  state.counters["slow"] = static_cast<double>(slow) / static_cast<double>(requests);
  state.counters["op"] = benchmark::Counter(
      static_cast<double>(program.ops.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace
}  // namespace vram

int main(int argc, char** argv) {
  const char* folder = std::getenv("VRAM_TRACES");
  for (const auto& file : std::filesystem::directory_iterator(folder ? folder : VRAM_DEMO)) {
    const std::string name = file.path().filename().string();
    if (name.find(".pickle") == std::string::npos) continue;
    benchmark::RegisterBenchmark(name.c_str(), vram::recorded, file.path().string())
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
