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

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace vram::trace {
namespace {

// Writes a snapshot as CPython's pickler does (protocol 4: every container and text memoised,
// batches of 1,000), of made-up events of any number: with no stacks, shared ones, or a list of its
// own for every event. For benchmarks and tests.
class SnapshotWriter {
 public:
  struct Options {
    uint64_t events = 1'000'000;
    unsigned frames = 0;  // of each stack
    uint64_t stacks = 0;  // that recur; 0: each event has one that no other has
    // each of those is one list, referred to; else written out every time
    bool share_lists = false;
    bool is_2_11 = true;  // with compile_context and user_metadata; else as 2.2
  };
  explicit SnapshotWriter(const std::string& path) : file_(path, std::ios::binary) {}

  // Bytes written.
  uint64_t write(const Options& options) {
    out_ = "\x80\x04}";
    memoize();
    out_ += '(';
    text("segments");
    out_ += ']';
    memoize();
    text("device_traces");
    out_ += ']';
    memoize();
    out_ += ']';
    memoize();
    make_frames();
    for (uint64_t i = 0; i < options.events; ++i) {
      if (i % 1000 == 0) out_ += i == 0 ? "(" : "e(";
      entry(i, options);
      if (out_.size() > (1U << 20)) flush();
    }
    out_ += "eau.";
    flush();
    return bytes_;
  }

 private:
  static constexpr unsigned kFrames = 2000;

  void entry(uint64_t i, const Options& options) {
    static constexpr const char* kActions[] = {"alloc", "free_requested", "free_completed"};
    out_ += '}';
    memoize();
    out_ += '(';
    text("action");
    text(kActions[i % 3]);
    text("addr");
    integer(140'000'000'000'000 + static_cast<int64_t>(random_() % (1 << 20)) * 512);
    text("size");
    integer(static_cast<int64_t>(random_() % 3 == 0 ? random_() % 256 : random_() % (1 << 26)));
    text("stream");
    integer(0);
    text("time_us");
    integer(1'795'246'131'127'223 + static_cast<int64_t>(i / 2));
    if (options.is_2_11) {
      text("compile_context");
      text("N/A");
      text("user_metadata");
      text("");
    }
    if (options.frames != 0) {
      text("frames");
      stack(options);
    }
    out_ += 'u';
  }

  void stack(const Options& options) {
    const uint64_t number = options.stacks == 0 ? 0 : random_() % options.stacks;
    stacks_.resize(options.stacks);
    if (options.share_lists && stacks_[number] != 0) return get(stacks_[number]);
    out_ += ']';
    const uint64_t memo = memoize();
    if (options.share_lists) stacks_[number] = memo;
    out_ += '(';
    std::minstd_rand recurring(static_cast<uint32_t>(number + 1));
    for (unsigned i = 0; i < options.frames; ++i) {
      frame((options.stacks == 0 ? random_() : recurring()) % kFrames);
    }
    out_ += 'e';
  }

  void make_frames() { frames_.assign(kFrames, 0); }
  void frame(uint64_t number) {
    if (frames_[number] != 0) return get(frames_[number]);
    out_ += '}';
    frames_[number] = memoize();
    out_ += '(';
    text("name");
    text("function_" + std::to_string(number % 311));
    text("filename");
    text("/usr/lib/python3/site-packages/package/module_" + std::to_string(number % 61) + ".py");
    text("line");
    integer(static_cast<int64_t>(1 + number % 907));
    out_ += 'u';
  }

  void text(const std::string& value) {
    if (const auto known = texts_.find(value); known != texts_.end()) return get(known->second);
    out_ += '\x8c';
    out_ += static_cast<char>(value.size());
    out_ += value;
    texts_[value] = memoize();
  }
  void integer(int64_t value) {
    if (value < 256) {
      raw('K', value, 1);
    } else if (value < 65536) {
      raw('M', value, 2);
    } else if (value < int64_t{1} << 31) {
      raw('J', value, 4);
    } else {
      int length = 5;
      while (value >> (8 * length - 1) != 0) ++length;
      out_ += '\x8a';
      raw(static_cast<char>(length), value, static_cast<size_t>(length));
    }
  }
  void get(uint64_t index) {
    raw(index < 256 ? 'h' : 'j', static_cast<int64_t>(index), index < 256 ? 1 : 4);
  }
  uint64_t memoize() {
    out_ += '\x94';
    return memo_++;
  }
  void raw(char opcode, int64_t value, size_t length) {
    char bytes[8];
    std::memcpy(bytes, &value, sizeof(bytes));
    out_ += opcode;
    out_.append(bytes, length);
  }
  void flush() {
    file_.write(out_.data(), static_cast<std::streamsize>(out_.size()));
    bytes_ += out_.size();
    out_.clear();
    file_.flush();
  }

  std::ofstream file_;
  std::string out_;
  uint64_t bytes_ = 0;
  uint64_t memo_ = 0;
  std::map<std::string, uint64_t> texts_;
  std::vector<uint64_t> frames_;  // memo numbers; the memo's first is the whole's
  std::vector<uint64_t> stacks_;
  std::mt19937_64 random_{1};
};

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
