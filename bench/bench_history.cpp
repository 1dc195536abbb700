// The history of a day: 24 hours of samples of 8 GPUs at 1 Hz, with 8 processes on each, written as
// `vram serve` writes them (each 10 s), only faster. How long that takes, how large the file is,
// what a sample costs the sampler's thread, and how long queries for that day take.
//
// The GPUs train: memory is a sawtooth; power, temperature and clocks are noisy. The target is
// 50 MB a day.
#include "base/time.hpp"
#include "history/history.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <unistd.h>

namespace vram::history {
namespace {

using watch::Device;
using watch::Process;
using watch::Sampled;
using watch::Use;

constexpr int64_t kBegin = int64_t{1'795'305'600} * kSignedSecondNs;
constexpr int64_t kSeconds = 24 * 3600;
constexpr uint32_t kDevices = 8;
constexpr uint32_t kProcesses = 8;  // a device
constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr uint64_t kTotal = kPage * 71'680;  // 140 GiB
constexpr uint64_t kReserved = kPage * 300;

class Machine {
 public:
  Machine() {
    for (uint32_t index = 0; index < kDevices; ++index) add_device(index);
  }

  const Sampled& take_sample(int64_t second) {
    std::uniform_int_distribution<int64_t> jitter_ns(-3'000'000, 3'000'000);
    sampled_.snapshot.time_ns = kBegin + second * kSignedSecondNs + jitter_ns(random_);
    sampled_.begin_ns = static_cast<uint64_t>(second * kSignedSecondNs);
    sampled_.snapshot.processes.clear();
    for (uint32_t index = 0; index < kDevices; ++index) move(index, second);
    return sampled_;
  }

 private:
  uint64_t number(uint64_t from, uint64_t to) {
    return std::uniform_int_distribution<uint64_t>(from, to)(random_);
  }
  uint32_t figure(uint32_t from, uint32_t to) { return static_cast<uint32_t>(number(from, to)); }

  void add_device(uint32_t index) {
    Device device;
    device.identity.index = index;
    device.identity.uuid = fmt::format("GPU-00000000-0000-0000-0000-{:012}", index);
    device.identity.name = "NVIDIA H200";
    device.sample.celsius = 60;
    device.sample.memory_mhz = 3201;
    sampled_.snapshot.devices.push_back(std::move(device));
  }

  void move(uint32_t index, int64_t second) {
    Device& device = sampled_.snapshot.devices[index];
    gpu::DeviceSample& sample = device.sample;
    const auto tooth = static_cast<uint64_t>((second + index * 3) % 17);
    const uint64_t used = kPage * (20'000 + tooth * 2'500 + number(0, 600));
    sample.memory = {kTotal, used, kTotal - used - kReserved, kReserved};
    device.unattributed_bytes = static_cast<int64_t>((512 << 20) + number(0, 64) * 65'536);
    sample.busy_percent = figure(85, 100);
    sample.memory_busy_percent = figure(30, 70);
    *sample.celsius += figure(0, 2) - 1;
    if (*sample.celsius < 50 || *sample.celsius > 80) sample.celsius = 60;
    sample.milliwatts = figure(480'000, 700'000);
    sample.core_mhz = figure(100, 132) * 15;
    device.pcie_sent_bytes_per_second = number(1'000'000, 20'000'000'000);
    device.pcie_received_bytes_per_second = number(1'000'000, 20'000'000'000);
    sample.processes.emplace();
    for (uint32_t i = 0; i < kProcesses; ++i) add_process(index, i, used / kProcesses);
  }

  void add_process(uint32_t index, uint32_t number, uint64_t used_bytes) {
    Process process;
    watch::ProcessFacts& facts = process.facts.edit();
    facts.pid = 1000 + index * kProcesses + number;
    facts.start_ticks = 77'000 + number;
    facts.user = "ann";
    facts.command = fmt::format("python3 train.py --config llama-8b.yaml --rank {}", index);
    Use use;
    use.device = index;
    use.process.pid = process.facts->pid;
    use.process.used_bytes = used_bytes;
    sampled_.snapshot.devices[index].sample.processes->push_back(use.process);
    process.uses.push_back(use);
    sampled_.snapshot.processes.push_back(std::move(process));
  }

  std::mt19937_64 random_{7};
  Sampled sampled_;
};

class Day {
 public:
  Day() : folder_(std::filesystem::temp_directory_path() / fmt::format("vram-day-{}", getpid())) {
    std::filesystem::create_directories(folder_);
    auto opened = History::open((folder_ / "history.db").string());
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(2);
    }
    history_ = std::make_unique<History>(std::move(*opened));
  }
  Day(const Day&) = delete;
  Day& operator=(const Day&) = delete;
  ~Day() {
    history_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  History& history() { return *history_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<History> history_;
};

// The cost of a sample on the sampler's thread while nothing is being written.
void add_a_sample(benchmark::State& state) {
  Day day;
  Machine machine;
  int64_t second = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const Sampled& sampled = machine.take_sample(second++);
    state.ResumeTiming();
    day.history().add(sampled);
  }
}
BENCHMARK(add_a_sample)->Iterations(3600);

Day& written_day() {
  static Day day;
  return day;
}

void write_a_day(benchmark::State& state) {
  Machine machine;
  History& history = written_day().history();
  for (auto _ : state) {
    for (int64_t second = 0; second < kSeconds; ++second) {
      history.add(machine.take_sample(second));
      if (second % 10 == 9 && !history.flush()) state.SkipWithError("not written");
    }
  }
  const auto bytes = static_cast<double>(history.facts().file_bytes);
  state.counters["file MB"] = bytes / 1e6;
  state.counters["bytes/sample"] = bytes / static_cast<double>(kSeconds * kDevices);
}
BENCHMARK(write_a_day)->Iterations(1)->MeasureProcessCPUTime()->Unit(benchmark::kSecond);

// All devices of the day written before; the argument is the step in seconds: 144 are 600 points.
void query_the_day(benchmark::State& state) {
  HistoryQuery query{.metric = "used_bytes", .device = {}, .from_ns = kBegin};
  query.step_ns = state.range(0) * kSignedSecondNs;
  size_t points = 0;
  for (auto _ : state) {
    auto series = written_day().history().query(query);
    if (!series) return state.SkipWithError(series.error().message.c_str());
    points = series->front().points.size();
  }
  state.counters["points"] = static_cast<double>(points);
}
BENCHMARK(query_the_day)->Arg(144)->Arg(30)->Arg(3600)->Unit(benchmark::kMillisecond);

void query_the_days_processes(benchmark::State& state) {
  ProcessQuery query{.device = {}, .from_ns = kBegin, .step_ns = 600 * kSignedSecondNs};
  for (auto _ : state) {
    auto found = written_day().history().processes(query);
    if (!found || found->size() != kDevices * kProcesses) state.SkipWithError("not all found");
  }
}
BENCHMARK(query_the_days_processes)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vram::history
