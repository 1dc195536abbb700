#include "base/ticks.hpp"

#include <array>
#include <fstream>
#include <string>
#include <string_view>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace vram {
namespace {

constexpr const char* kClockOfKernel =
    "/sys/devices/system/clocksource/clocksource0/current_clocksource";
// Those that read the counter. With another one, the kernel has found the counter unreliable.
constexpr std::array<std::string_view, 4> kReadCounter = {
    "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"};

bool is_rate_constant() {
#if defined __x86_64__
  constexpr unsigned kPowerManagement = 0x80000007;
  constexpr unsigned kInvariantTsc = 1U << 8;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
#elif defined __aarch64__
  return true;
#else
  return false;
#endif
}

// A container may hide the file: then the processor's word counts.
bool does_kernel_use_it() {
  std::ifstream file(kClockOfKernel);
  std::string name;
  if (!(file >> name)) return true;
  for (const std::string_view each : kReadCounter) {
    if (name == each) return true;
  }
  return false;
}

}  // namespace

bool has_tick_counter() {
  static const bool has = is_rate_constant() && does_kernel_use_it();
  return has;
}

// The counter is read on both sides of the clock, whose reading an interruption may delay.
TickClock::Pair TickClock::Pair::now() {
  constexpr int kTries = 3;
  const bool has_counter = has_tick_counter();
  Pair best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = tick_count(has_counter);
    const int64_t ns = clock_ns(CLOCK_MONOTONIC);
    const uint64_t took = tick_count(has_counter) - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {.ticks = before + took / 2, .monotonic_ns = ns};
  }
  return best;
}

TickClock TickClock::started_now() { return {Pair::now(), clock_ns(CLOCK_REALTIME)}; }

// Where the counter or the clock has gone back, as after a machine was suspended or moved, the rate
// stays the one before.
void TickClock::note(const Pair& pair) {
  if (pair.monotonic_ns - newer_.monotonic_ns >= kMinSpanNs) older_ = newer_;
  newer_ = pair;
  if (newer_.ticks <= older_.ticks || newer_.monotonic_ns <= older_.monotonic_ns) return;
  ns_per_tick_ = static_cast<double>(newer_.monotonic_ns - older_.monotonic_ns) /
                 static_cast<double>(newer_.ticks - older_.ticks);
}

int64_t TickClock::unix_ns(uint64_t ticks) const {
  const auto since = static_cast<int64_t>(ticks - newer_.ticks);
  return newer_.monotonic_ns + offset_ns_ +
         static_cast<int64_t>(static_cast<double>(since) * ns_per_tick_);
}

}  // namespace vram
