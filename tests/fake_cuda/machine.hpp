// The machine that the fake driver drives, and how each entry point goes in: one at a time,
// counted, refused where the real driver would refuse it.
#pragma once

#include "gpu/cuda/driver_types.hpp"
#include "memory.hpp"
#include "streams.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace vram::gpu::cuda::fake {

// Which calls fail on purpose, and how often each was made. Guarded by the machine's mutex.

class Failures {
 public:
  // Counts the call; what it is to fail with, kSuccess to go on.
  [[nodiscard]] CUresult next(const std::string& function);
  // function empty: any.
  void fail_nth(std::string function, uint64_t nth, CUresult result);
  void fail_at_random(std::string function, double rate, uint64_t seed, CUresult result);
  void break_device(CUresult result) { broken_ = result; }
  void heal();
  [[nodiscard]] uint64_t calls(const std::string& function) const;

 private:
  struct Planned {
    std::string function;
    uint64_t calls_left = 0;
    CUresult result = kSuccess;
  };
  struct AtRandom {
    std::string function;
    double rate = 0;
    CUresult result = kSuccess;
    std::mt19937_64 random;
  };
  [[nodiscard]] CUresult next_planned(const std::string& function);

  std::map<std::string, uint64_t> calls_;
  std::vector<Planned> planned_;
  std::optional<AtRandom> at_random_;
  CUresult broken_ = kSuccess;
};

}  // namespace vram::gpu::cuda::fake

namespace vram::gpu::cuda {

// The primary context of a device.
struct CUctx_st {  // NOLINT(readability-identifier-naming): CUDA's own name
  int device = 0;
  size_t retained = 0;
};

namespace fake {

struct Machine {
  Machine(int device_count, size_t capacity_bytes, bool is_virtual_supported);

  [[nodiscard]] int device_count() const { return static_cast<int>(contexts.size()); }
  [[nodiscard]] bool is_device(int device) const { return device >= 0 && device < device_count(); }
  [[nodiscard]] bool can_reach(int device, int memory_of) const;

  bool is_initialized = false;
  Failures failures;
  Memory memory;
  Streams streams;
  std::vector<std::unique_ptr<CUctx_st>> contexts;
  std::vector<bool> is_virtual;       // by device: virtual memory management
  std::vector<uint64_t> unreachable;  // by device: peers it can't access, as bits
  bool is_last_rdma_capable = false;
  std::map<void*, std::unique_ptr<char[]>> pinned;  // the host's memory, by where it begins
  std::set<CUstream> made_streams;
  uintptr_t last_stream = 0x7000;
  // The copy to the host, counted from 1 among those that are not all zeros, in which a bit comes
  // out wrong; 0: none.
  uint64_t bad_copy = 0;
  // Counts a copy to the host, and flips a bit of its middle if it is the one.
  void spoil(char* bytes, size_t count);
};

std::mutex& machine_mutex();
// With the mutex held.
Machine& machine();
void replace_machine(int devices, size_t capacity_bytes);

// What each thread has of the driver: the stack of its contexts and its capture mode.
struct Thread {
  std::vector<CUcontext> contexts;
  CUcaptureMode capture_mode = kCaptureGlobal;
};
Thread& this_thread();
// The device of the thread's current context, -1 without one that lives.
int current_device(const Machine& machine);

enum Needs : unsigned {
  kNeedsNothing = 0,
  kNeedsInit = 1,
  kNeedsContext = 2,
  // Forbidden, and spoils captures, while any stream is captured and this thread is not relaxed.
  kUnsafeInCapture = 4,
};

[[nodiscard]] CUresult refusal(Machine& machine, const char* function, unsigned needs);

// An entry point: body(machine) with the mutex held, unless the call is refused.
template <typename Body>
[[nodiscard]] CUresult enter(const char* function, unsigned needs, Body body) {
  const std::scoped_lock lock(machine_mutex());
  const CUresult refused = refusal(machine(), function, needs);
  return refused != kSuccess ? refused : body(machine());
}

}  // namespace fake

}  // namespace vram::gpu::cuda
