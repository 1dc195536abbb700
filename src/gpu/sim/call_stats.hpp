// CallStats: how often each call was made of the simulated driver and what it took. Plain counters,
// no allocation.
#pragma once

#include "gpu/call.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace vram::gpu {

struct CallStats {
  struct One {
    uint64_t count = 0;     // with those that failed
    uint64_t failed = 0;    // answered neither kOk nor kNotReady
    int64_t time_ns = 0;    // in the call itself
    int64_t waited_ns = 0;  // for the device's work, inside the call
  };
  std::array<One, kCallCount> calls;

  [[nodiscard]] const One& operator[](Call call) const { return calls[static_cast<size_t>(call)]; }
  [[nodiscard]] One& operator[](Call call) { return calls[static_cast<size_t>(call)]; }
  [[nodiscard]] uint64_t count() const;
  [[nodiscard]] int64_t time_ns() const;  // of all calls, without waiting
};

}  // namespace vram::gpu
