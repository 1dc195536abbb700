// What the threads of verify_pool share: devices, their streams, counters, and blocks that one
// thread hands to another.
#pragma once

#include "journal.cuh"
#include "kernels.cuh"
#include "memory.cuh"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

struct Options {
  double seconds = 20;
  int threads = 4;
  int streams = 8;  // of each device
  int devices = 1;
  size_t limit_bytes = size_t{2} << 30;
  size_t max_bytes = size_t{512} << 20;  // of one block
  Word seed = 1;
  int crossed_rounds = 10;
  std::string without;          // names of operations that are left out
  std::string wrong_allocator;  // VERIFY_BREAK
};

#define FOR_EACH_COUNTER(X)                                                                     \
  X(operations)                                                                                 \
  X(allocations)                                                                                \
  X(checks)                                                                                     \
  X(checked_words)                                                                              \
  X(out_of_memory) X(captures) X(broken_captures) X(graph_launches)                             \
      X(forgotten_streams) X(other_stream_uses) X(orphans) X(handed_over) X(reclaimed) X(trims) \
          X(flag_waits) X(early_frees) X(copies)

// One thread's, which alone changes them; others read.
struct Counters {
#define DECLARE(name) std::atomic<Word> name{0};
  FOR_EACH_COUNTER(DECLARE)
#undef DECLARE
};
inline void add(std::atomic<Word>& counter, Word count = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

// A stream from its creation to its destruction. Kept until the program ends: blocks name it.
struct Life {
  cudaStream_t stream = nullptr;
  cudaEvent_t end = nullptr;  // behind its last work, once it is destroyed
};

// Who queues work in the slot's stream holds the lock shared; who captures or replaces the stream
// holds it alone, and only ever tries to take it: so no thread waits while it holds a lock that
// another waits for.
struct Slot {
  int device = 0;
  std::shared_mutex lock;
  std::atomic<Life*> life{nullptr};  // changes only while the lock is held alone
};

struct Block {
  int device = 0;
  Word* address = nullptr;
  size_t bytes = 0;
  Tag tag = 0;
  Slot* slot = nullptr;
  Life* life = nullptr;
  bool is_only_read = false;  // other streams may be reading it, so it is not written any more
  [[nodiscard]] Word words() const { return bytes / sizeof(Word); }
};

struct Device {
  Memory memory;
  Wrong* wrong = nullptr;      // pinned
  Checked* checked = nullptr;  // on the device
  std::vector<std::unique_ptr<Slot>> slots;
};

// Flags that kernels wait for: a thread asks for the next value, the releaser sets it soon
// afterwards without a call to the driver, so that whoever waits for such a kernel goes on in the
// end.
struct Flag {
  volatile unsigned* value = nullptr;  // pinned
  std::atomic<unsigned> asked{0};
};

struct Worker {
  Counters counters;
  Flag flag;
  std::atomic<const char*> doing{"starting"};
};

class Machine {
 public:
  explicit Machine(Options chosen) : options(std::move(chosen)) {}

  const Options options;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Worker>> workers;
  std::atomic<bool> should_stop{false};
  Journal journal;

  // Records what is wrong besides wrong words; the program ends soon, with exit code 1.
  void fail(const std::string& what) {
    const std::lock_guard<std::mutex> guard(lock_);
    if (failures_.size() < 20) failures_.push_back(what);
    should_stop = true;
  }
  [[nodiscard]] std::vector<std::string> failures() {
    const std::lock_guard<std::mutex> guard(lock_);
    return failures_;
  }
  // A failure after which nothing can go on.
  [[noreturn]] void stop_at_once(const std::string& what) {
    fail(what);
    report();
    _exit(1);
  }
  void check(cudaError_t result, const char* call) {
    if (result != cudaSuccess) stop_at_once(std::string(call) + ": " + cudaGetErrorName(result));
  }
  void check(vram_status status, const char* call) {
    if (status != VRAM_OK) stop_at_once(std::string(call) + ": " + vram_status_text(status));
  }
  // Prints the line of JSON; whether all was well.
  bool report();

  // Blocks on their way to another thread, or for the reclaim hook to free: their checks are
  // queued. A store that is full takes no more.
  bool put(std::vector<Block>& store, const Block& block) {
    const std::lock_guard<std::mutex> guard(lock_);
    if (store.size() >= 64) return false;
    store.push_back(block);
    return true;
  }
  bool take(std::vector<Block>& store, Block* block) {
    const std::lock_guard<std::mutex> guard(lock_);
    if (store.empty()) return false;
    *block = store.back();
    store.pop_back();
    return true;
  }
  std::vector<Block> handed_over;
  std::vector<Block> spare;

  Life* begin_life(int device, bool is_blocking) {
    auto life = std::make_unique<Life>();
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&life->stream,
                                    is_blocking ? cudaStreamDefault : cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&life->end, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    const std::lock_guard<std::mutex> guard(lock_);
    lives_.push_back(std::move(life));
    return lives_.back().get();
  }

  [[nodiscard]] Word wrong_words() const {
    Word sum = 0;
    for (const auto& device : devices) {
      if (device->wrong != nullptr) sum += static_cast<const volatile Wrong*>(device->wrong)->words;
    }
    return sum;
  }
  [[nodiscard]] Word sum(std::atomic<Word> Counters::* counter) const {
    Word sum = 0;
    for (const auto& worker : workers)
      sum += (worker->counters.*counter).load(std::memory_order_relaxed);
    return sum;
  }

 private:
  std::mutex lock_;
  std::vector<std::string> failures_;
  std::vector<std::unique_ptr<Life>> lives_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

inline bool Machine::report() {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  std::string first, failed;
  Word timeouts = 0;
  for (const auto& device : devices) {
    if (device->wrong == nullptr) continue;
    timeouts += device->wrong->flag_timeouts;
    for (Word i = 0; i < device->wrong->words && i < Wrong::kMaxKept; ++i) {
      const WrongWord& word = device->wrong->first[i];
      char text[200];
      std::snprintf(text, sizeof text,
                    "%s{\"address\": \"0x%llx\", \"expected_tag\": %u, \"expected_index\": %u, "
                    "\"found_tag\": %u, "
                    "\"found_index\": %u, \"check\": %llu, \"time_ns\": %llu}",
                    first.empty() ? "" : ", ", word.address,
                    static_cast<unsigned>(word.expected >> 32),
                    static_cast<unsigned>(word.expected), static_cast<unsigned>(word.found >> 32),
                    static_cast<unsigned>(word.found), word.check, word.time_ns);
      first += text;
    }
  }
  for (const std::string& text : failures()) failed += (failed.empty() ? "" : ", ") + quoted(text);
  const Word wrong = wrong_words(), broken = sum(&Counters::broken_captures);
  std::printf("{");
#define PRINT(name) std::printf("\"" #name "\": %llu, ", sum(&Counters::name));
  FOR_EACH_COUNTER(PRINT)
#undef PRINT
  std::printf(
      "\"checked_bytes\": %llu, \"wrong_words\": %llu, \"first_wrong\": [%s], \"flag_timeouts\": "
      "%llu, ",
      sum(&Counters::checked_words) * sizeof(Word), wrong, first.c_str(), timeouts);
  std::printf(
      "\"failures\": [%s], \"seconds\": %.1f, \"operations_per_second\": %.0f, \"seed\": %llu}\n",
      failed.c_str(), seconds, static_cast<double>(sum(&Counters::operations)) / seconds,
      options.seed);
  std::fflush(stdout);
  return wrong == 0 && broken == 0 && timeouts == 0 && failed.empty();
}
