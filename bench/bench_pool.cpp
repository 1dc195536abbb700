// The time of a pool operation without the driver: recorded sequences of requests and frees, played
// repeatedly on one warm pool. `alone` measures the allocator, `shared` the C library, with 1, 2
// and 4 threads that have their own streams. If the pool calls the driver, the time includes the
// simulated GPU's arithmetic. `slow` is the share of requests that reached the driver, `visits` the
// share of operations that took the pool's lock, `memory` the pool's peak of reserved memory
// divided by the sum of the threads' own peaks of live memory.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_pool &&
//   build/release/bench/bench_pool            # demo/, or: VRAM_TRACES=FOLDER bench_pool

#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "pool/device.hpp"
#include "pool/pool.hpp"
#include "pool/shared_pool.hpp"
#include "replay/program.hpp"
#include "trace/open.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vram {
namespace {

using replay::Op;
using replay::OpKind;
using replay::Program;

// One program on a pool, alone.
class Player {
 public:
  explicit Player(const Program& program)
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

  const Program& program_;
  gpu::SimGpu gpu_;
  pool::Device device_;
  pool::Pool pool_;
  std::vector<pool::BlockId> blocks_;
};

// The pool as the C library hands it out: of all threads, blocks by address.
struct Shared {
  gpu::SimGpu gpu{{.devices = {gpu::SimDevice{.capacity_bytes = 512 * kGiB}}}};
  pool::Device device{gpu, 0};
  pool::SharedPool pool{device};
};

// The most that one of them has live at once.
uint64_t peak_bytes(const Program& program) {
  uint64_t live = 0;
  uint64_t peak = 0;
  std::vector<uint64_t> sizes(program.block_count);
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::kAlloc) live += sizes[op.block] = op.size_bytes;
    if (op.kind == OpKind::kFree || op.kind == OpKind::kFreeLater) live -= sizes[op.block];
    peak = std::max(peak, live);
  }
  return peak;
}

// One thread's program, on streams of its own.
void play(const Program& program, pool::SharedPool& pool, uint64_t first_stream,
          std::vector<pool::Address>& blocks) {
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::kAlloc) {
      const uint64_t stream = program.stream_handles[op.stream] + first_stream;
      blocks[op.block] = pool.allocate(op.size_bytes, stream);
    } else if (op.kind == OpKind::kFree || op.kind == OpKind::kFreeLater) {
      (void)pool.free(std::exchange(blocks[op.block], 0));
    }
  }
  for (pool::Address& block : blocks) {
    if (block != 0) (void)pool.free(std::exchange(block, 0));
  }
}

// Wall time by the operations of all threads. The library multiplies by the iterations of all
// threads together, so of what they set it must take the mean, not the sum.
benchmark::Counter per_op(const Program& program) {
  return benchmark::Counter(static_cast<double>(program.ops.size()),
                            benchmark::Counter::kIsIterationInvariantRate |
                                benchmark::Counter::kAvgThreads | benchmark::Counter::kInvert);
}

void alone(benchmark::State& state, const Program& program) {
  Player player(program);
  player.play();
  const pool::Stats before = player.stats();
  for (auto _ : state) player.play();
  const auto requests = player.stats().allocation.allocated - before.allocation.allocated;
  const auto slow = player.stats().slow_requests - before.slow_requests;
  state.counters["slow"] = static_cast<double>(slow) / static_cast<double>(requests);
  state.counters["op"] = per_op(program);
}

std::unique_ptr<Shared> common;
std::unique_ptr<std::barrier<>> warm;

void start(const benchmark::State& state) {
  common = std::make_unique<Shared>();
  warm = std::make_unique<std::barrier<>>(state.threads());
}

void shared(benchmark::State& state, const Program& program) {
  std::vector<pool::Address> blocks(program.block_count);
  const uint64_t stream = static_cast<uint64_t>(state.thread_index() + 1) << 32;
  for (int i = 0; i < 3; ++i) play(program, common->pool, stream, blocks);
  warm->arrive_and_wait();
  const pool::Stats before = common->pool.stats();
  for (auto _ : state) play(program, common->pool, stream, blocks);
  state.counters["op"] = per_op(program);
  if (state.thread_index() != 0) return;
  const pool::Stats after = common->pool.stats();
  const auto hits = after.shelf_hits - before.shelf_hits;
  const auto requests = after.allocation.allocated - before.allocation.allocated;
  // A hit spares the lock twice: the request's, and that of the free before it.
  state.counters["visits"] = 1 - static_cast<double>(hits) / static_cast<double>(requests);
  const auto slow = after.slow_requests - before.slow_requests;
  state.counters["slow"] = static_cast<double>(slow) / static_cast<double>(requests);
  state.counters["memory"] = static_cast<double>(after.reserved_bytes.peak) /
                             static_cast<double>(peak_bytes(program)) / state.threads();
}

void add(const std::string& name, const Program& program) {
  benchmark::RegisterBenchmark(("alone/" + name).c_str(), alone, std::cref(program))
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("shared/" + name).c_str(), shared, std::cref(program))
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->Setup(start)
      ->Threads(1)
      ->Threads(2)
      ->Threads(4);
}

}  // namespace
}  // namespace vram

int main(int argc, char** argv) {
  const char* folder = std::getenv("VRAM_TRACES");
  std::deque<vram::replay::Program> programs;
  for (const auto& file : std::filesystem::directory_iterator(folder ? folder : VRAM_DEMO)) {
    const std::string name = file.path().filename().string();
    if (name.find(".pickle") == std::string::npos) continue;
    const auto trace = vram::trace::open_trace(file.path().string());
    if (!trace) continue;
    vram::add(name, programs.emplace_back(vram::replay::make_program(*trace, trace->devices[0])));
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
