// AMD's and Intel's devices: the cost of a sample on a machine with 500 processes and 4,000
// descriptors, where 16 processes use the GPU with four descriptors each. The target is 1 ms.
//
// made_up_tree reads a tree in memory that has such processes. real_proc reads this machine's
// /proc, with sleeping children up to that number of processes, and a made-up card: it includes the
// kernel's time, but no process uses the GPU. A sample on a real machine costs the files of both.
#include "gpu/drm/drm.hpp"
#include "gpu/drm/holders.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vram::gpu::drm {
namespace {

constexpr uint32_t kUsers = 16;
constexpr uint32_t kCrowd = 484;
constexpr uint32_t kDescriptors = 8;

void add_user(const RecordedTree& tree, uint32_t pid) {
  tree.add_process(pid, pid);
  for (uint32_t number = 0; number < kDescriptors / 2; ++number) {
    tree.link(fmt::format("proc/{}/fd/{}", pid, number), "/dev/null");
    tree.add_descriptor(pid, number + kDescriptors / 2, "/dev/dri/renderD128",
                        fmt::format("drm-driver:\tamdgpu\ndrm-pdev:\t0000:0b:00.0\n"
                                    "drm-client-id:\t{}\ndrm-memory-vram:\t1024 KiB\n"
                                    "drm-memory-gtt: \t512 KiB\ndrm-engine-compute:\t12345 ns\n",
                                    pid * kDescriptors + number));
  }
}

void add_card(const RecordedTree& tree) {
  const std::string device = "sys/class/drm/card0/device/";
  tree.write(device + "uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:0b:00.0\n");
  tree.write(device + "drm/renderD128/dev", "226:128\n");
  tree.write(device + "mem_info_vram_total", "17163091968\n");
}

void run_ticks(benchmark::State& state, const Roots& roots) {
  const Drm drm = Drm::open(roots);
  if (!drm.sample(0).processes) state.SkipWithError("the made-up card is not there");
  const uint64_t opened = drm.files_opened();
  for (auto _ : state) benchmark::DoNotOptimize(drm.sample(0));
  state.counters["files"] =
      static_cast<double>(drm.files_opened() - opened) / static_cast<double>(state.iterations());
}

void made_up_tree(benchmark::State& state) {
  const RecordedTree tree;
  add_card(tree);
  tree.add_crowd(1000, kCrowd, kDescriptors);
  for (uint32_t pid = 5000; pid < 5000 + kUsers; ++pid) add_user(tree, pid);
  run_ticks(state, tree.roots());
}

// Processes that wait until this one ends.
class Children {
 public:
  explicit Children(size_t count) {
    for (uint32_t i = 3; i < kDescriptors; ++i) descriptors_.push_back(open("/dev/null", O_RDONLY));
    while (pids_.size() < count) {
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) pause();
      }
      if (pid < 0) break;
      pids_.push_back(pid);
    }
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
    for (const int descriptor : descriptors_) close(descriptor);
  }

 private:
  std::vector<pid_t> pids_;
  std::vector<int> descriptors_;
};

void real_proc(benchmark::State& state) {
  const RecordedTree tree;
  add_card(tree);
  Files files;
  const size_t there = files.numbers_in("/proc").size();
  const Children children(kCrowd + kUsers - std::min<size_t>(there, kCrowd + kUsers));
  run_ticks(state, {tree.roots().sys, "/proc"});
  Holders("/proc").tick(files, {});
  state.counters["links"] = static_cast<double>(files.links_read());
  state.counters["processes"] = static_cast<double>(files.numbers_in("/proc").size());
}

BENCHMARK(made_up_tree)->Unit(benchmark::kMillisecond);
BENCHMARK(real_proc)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vram::gpu::drm
