// What each record reads, in as few lines of the processor's cache as possible: between two
// requests for memory, a program evicts most of them.
#pragma once

#include <atomic>
#include <cstdint>

namespace vram::record {

class Ring;

// Whether there is a flusher that takes the records.
enum class Phase : uint8_t { kAsleep, kRunning, kFailed };
// What capture_stack() captures.
enum class Stacks : uint8_t { kNone, kPython, kNative };

// Of the process. Starting and stopping change it, and a leader's scopes (ScopeStack).
struct alignas(64) ForRecords {
  std::atomic<bool> is_on{false};  // of Recorder
  std::atomic<Phase> phase{Phase::kAsleep};
  std::atomic<bool> is_flight{false};
  std::atomic<bool> has_tick_counter{false};
  std::atomic<Stacks> stacks{Stacks::kNone};
  std::atomic<uint32_t> leaders_path{0};
  std::atomic<int64_t> stated_ns{0};  // 0: the clock's time counts
};
inline constinit ForRecords for_records;

// Of a thread. In the library's static block of thread-local storage, which is accessed without a
// call; has no destructor (base/thread_end.hpp).
struct alignas(32) OfThread {
  Ring* ring = nullptr;
  bool is_writing = false;
  bool has_scope = false;
  uint32_t path = 0;  // of the scopes, if it has one
};
extern __attribute__((tls_model("initial-exec"))) constinit thread_local OfThread of_thread;

}  // namespace vram::record
