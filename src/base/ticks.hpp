// The processor's counter as a clock for hot paths. Reading it touches no memory; clock_gettime()
// reads the kernel's data and code, which a program has evicted from its caches between two
// readings.
//
//     tick_count() ─▶ a number ─▶ TickClock ─▶ Unix time, in a thread that has time
#pragma once

#include "base/clock.hpp"

#include <cstdint>

namespace vram {

// Whether the processor has a counter that all its cores share and whose rate is constant, and the
// kernel uses it as its own clock. Reads a file the first time.
[[nodiscard]] bool has_tick_counter();

// The counter's value, or, where has_tick_counter() is false, that of CLOCK_MONOTONIC in ns: the
// caller passes what that function returned. Readings are not ordered with other instructions.
inline uint64_t tick_count(bool has_counter) {
#if defined __x86_64__
  if (has_counter) return __builtin_ia32_rdtsc();
#elif defined __aarch64__
  if (has_counter) {
    uint64_t count = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
  }
#endif
  return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
}

// Converts counts into Unix time by pairs of both clocks. The wall clock counts once, at the first
// pair: afterwards time is what has passed since, even if the wall clock is set. One thread at a
// time.
class TickClock {
 public:
  struct Pair {
    uint64_t ticks = 0;
    int64_t monotonic_ns = 0;
    [[nodiscard]] static Pair now();
  };
  TickClock(const Pair& first, int64_t unix_ns)
      : older_(first), newer_(first), offset_ns_(unix_ns - first.monotonic_ns) {}
  [[nodiscard]] static TickClock started_now();

  // The time of counts around this pair is interpolated between it and one at least kMinSpanNs
  // older.
  static constexpr int64_t kMinSpanNs = 10'000'000;
  void note(const Pair& pair);
  [[nodiscard]] int64_t unix_ns(uint64_t ticks) const;

 private:
  Pair older_;
  Pair newer_;
  int64_t offset_ns_;
  double ns_per_tick_ = 1;
};

}  // namespace vram
