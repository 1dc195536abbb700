// What a tick of the monitor costs besides the driver's calls: the facts of 64 processes that use
// GPUs among 500, from files that look like /proc; of 500 real ones that sleep, by asking the
// kernel who lives and by reading the stat of each; a whole snapshot of 8 GPUs with 64 processes
// each.
//
//   cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release bench_processes &&
//   build/release/bench/bench_processes

#include "watch/take_snapshot.hpp"
#include "watch/testing/processes.hpp"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace vram::watch {
namespace {

constexpr uint32_t kProcesses = 500;
constexpr uint32_t kUsers = 64;  // of GPUs
constexpr uint32_t kDevices = 8;

const testing::ProcTree& tree() {
  static const testing::ProcTree proc;
  [[maybe_unused]] static const bool is_filled = [] {
    const std::string id(64, 'a');
    for (uint32_t pid = 1; pid <= kProcesses; ++pid) {
      proc.put({.pid = pid,
                .cgroup = "0::/system.slice/docker-" + id + ".scope\n",
                .environment = std::string(3000, 'x') + '\0'});
    }
    return true;
  }();
  return proc;
}

void lookup_users(ProcessTable& table) {
  for (uint32_t pid = 1; pid <= kUsers; ++pid) benchmark::DoNotOptimize(table.lookup(pid));
  table.forget_unused();
}

void known_processes(benchmark::State& state) {
  ProcessTable table(tree().root());
  lookup_users(table);
  for (auto _ : state) lookup_users(table);
}
BENCHMARK(known_processes)->Unit(benchmark::kMillisecond);

void new_processes(benchmark::State& state) {
  for (auto _ : state) {
    ProcessTable table(tree().root());
    lookup_users(table);
  }
}
BENCHMARK(new_processes)->Unit(benchmark::kMillisecond);

// The kernel writes its text again for each read. Argument 1: asks the kernel which are alive.
void real_processes(benchmark::State& state) {
  const std::vector<testing::Child> children(kProcesses);
  ProcessTable table;
  for (auto _ : state) {
    if (state.range(0) == 1) table.begin_tick();
    for (const testing::Child& child : children)
      benchmark::DoNotOptimize(table.lookup(child.pid()));
    table.forget_unused();
  }
}
BENCHMARK(real_processes)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

Readings readings_of_all() {
  Readings readings;
  for (uint32_t place = 0; place < kDevices; ++place) {
    DeviceReading reading;
    reading.sample.memory = {1'000'000, 640'000, 359'000, 1000};
    reading.sample.processes.emplace();
    for (uint32_t pid = 1; pid <= kUsers; ++pid) {
      gpu::DeviceProcess process;
      process.pid = pid;
      process.used_bytes = 10'000;
      reading.sample.processes->push_back(process);
    }
    readings.devices.push_back(std::move(reading));
  }
  return readings;
}

void whole_snapshot(benchmark::State& state) {
  ProcessTable table(tree().root());
  Boards boards;
  for (auto _ : state) {
    benchmark::DoNotOptimize(take_snapshot(current_moment(), readings_of_all(), table, boards));
  }
}
BENCHMARK(whole_snapshot)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vram::watch
