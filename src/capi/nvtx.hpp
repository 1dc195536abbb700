// Nvtx: scopes and steps as NVTX ranges, so that a profiler shows them with kernels. A profiler
// that starts a program names its library in NVTX_INJECTION64_PATH; without it, each call costs one
// load. VRAM_NVTX=0 turns the ranges off. NVTX's own client code is in headers, which every user of
// it compiles; this is the part of it that ranges need, after nvtxTypes.h and nvtxInit.h of NVTX 3.
// May be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace vram::capi {

class Nvtx {
 public:
  // Whether a profiler receives ranges. The first call loads its library.
  [[nodiscard]] static bool is_on() {
    const State state = state_of_process.load(std::memory_order_acquire);
    return state == State::kOn || (state == State::kUnknown && start());
  }
  // Ranges of the calling thread; they nest.
  static void push(const char* name);
  static void pop();
  // Ends the current range of the process for steps, and begins the next.
  static void step(uint64_t number);

 private:
  enum class State : uint8_t { kUnknown, kOff, kOn };
  static bool start();
  inline static std::atomic<State> state_of_process{State::kUnknown};
};

}  // namespace vram::capi
