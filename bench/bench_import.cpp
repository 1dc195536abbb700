// Importing PyTorch snapshots: events and bytes a second, and the most memory held at once as a
// share of the file
// ("memory": 1.2 is the promise). Files are made up in the temporary folder; VRAM_BENCH_SNAPSHOT
// names one more.
//
// Memory is measured by the kernel's own high-water mark, set back before each import. The same for
// the whole program:
//     /usr/bin/time -v build/release/src/vram convert big.pickle /dev/null
// whose "Maximum resident set size" includes some 10 MB of program and libraries.
#include "trace/open.hpp"
#include "trace/testing/snapshot_writer.hpp"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <string>
#include <unistd.h>

namespace vram::trace {
namespace {

// kB, from /proc/self/status.
uint64_t memory_kb(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(name + ":"))
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  }
  return 0;
}
// As in a fresh process: later in a process's life malloc copies growing arrays instead of moving
// their pages.
[[maybe_unused]] const int kMmapThreshold = mallopt(M_MMAP_THRESHOLD, 128 << 10);

void reset_high_water() { std::ofstream("/proc/self/clear_refs") << "5"; }

class SnapshotFile {
 public:
  explicit SnapshotFile(const SnapshotWriter::Options& options)
      : path_(std::filesystem::temp_directory_path() /
              ("bench_import." + std::to_string(getpid()) + ".pickle")) {
    SnapshotWriter(path_).write(options);
  }
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;
  ~SnapshotFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void import_file(benchmark::State& state, const std::string& path) {
  uint64_t events = 0;
  double memory_bytes = 0;
  for (auto _ : state) {
    reset_high_water();
    const uint64_t before_kb = memory_kb("VmRSS");
    const Result<Trace> trace = open_trace(path);
    if (!trace) {
      state.SkipWithError(trace.error().message.c_str());
      return;
    }
    memory_bytes = 1024.0 * static_cast<double>(memory_kb("VmHWM") - before_kb);
    events += trace->events.size();
  }
  const auto file_bytes = static_cast<double>(std::filesystem::file_size(path));
  state.SetItemsProcessed(static_cast<int64_t>(events));
  state.SetBytesProcessed(
      static_cast<int64_t>(file_bytes * static_cast<double>(state.iterations())));
  state.counters["memory"] = memory_bytes / file_bytes;
}

void no_stacks(benchmark::State& state) {
  import_file(state, SnapshotFile({.events = 3'000'000}).path());
}
void no_stacks_2_2(benchmark::State& state) {
  import_file(state, SnapshotFile({.events = 3'000'000, .is_2_11 = false}).path());
}
void shared_stacks(benchmark::State& state) {
  import_file(
      state,
      SnapshotFile({.events = 2'000'000, .frames = 25, .stacks = 500, .share_lists = true}).path());
}
void recurring_stacks_84_frames(benchmark::State& state) {
  import_file(state, SnapshotFile({.events = 500'000, .frames = 84, .stacks = 2000}).path());
}
void unique_stacks_25_frames(benchmark::State& state) {
  import_file(state, SnapshotFile({.events = 1'000'000, .frames = 25}).path());
}
void unique_stacks_84_frames(benchmark::State& state) {
  import_file(state, SnapshotFile({.events = 500'000, .frames = 84}).path());
}
void named_file(benchmark::State& state) {
  const char* path = std::getenv("VRAM_BENCH_SNAPSHOT");
  if (path == nullptr) {
    state.SkipWithError("VRAM_BENCH_SNAPSHOT names no file");
    return;
  }
  import_file(state, path);
}

BENCHMARK(no_stacks)->Unit(benchmark::kMillisecond);
BENCHMARK(no_stacks_2_2)->Unit(benchmark::kMillisecond);
BENCHMARK(shared_stacks)->Unit(benchmark::kMillisecond);
BENCHMARK(recurring_stacks_84_frames)->Unit(benchmark::kMillisecond);
BENCHMARK(unique_stacks_25_frames)->Unit(benchmark::kMillisecond);
BENCHMARK(unique_stacks_84_frames)->Unit(benchmark::kMillisecond);
BENCHMARK(named_file)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vram::trace
