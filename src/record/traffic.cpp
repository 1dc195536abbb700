#include "record/traffic.hpp"

#include <algorithm>
#include <thread>

namespace vram::record {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kNapForPlace{50};
// A disk that takes longer for what the flusher has in hand is a slow one.
constexpr std::chrono::milliseconds kMaxQuickCycle{100};
constexpr int64_t kShareOfTime = 100;

}  // namespace

Record* Traffic::wait_for_place(Ring& ring) {
  while (patience_ns_.load(std::memory_order_relaxed) > 0) {
    if (Record* place = ring.claim(); place != nullptr) return place;
    hurry();
    const uint64_t seen = progress();
    const auto begin = SteadyClock::now();
    std::this_thread::sleep_for(kNapForPlace);
    const std::chrono::nanoseconds waited = SteadyClock::now() - begin;
    if (progress() == seen) patience_ns_.fetch_sub(waited.count(), std::memory_order_relaxed);
  }
  return ring.claim();
}

void Traffic::note_cycle(std::chrono::nanoseconds duration) {
  const int64_t left = patience_ns_.load(std::memory_order_relaxed);
  if (duration > kMaxQuickCycle || left >= kMaxWait.count()) return;
  const int64_t more = std::min(duration.count() / kShareOfTime, kMaxWait.count() - left);
  patience_ns_.fetch_add(more, std::memory_order_relaxed);
}

Traffic& traffic() {
  static Traffic& one = *new Traffic;  // never destroyed: threads may record while the process ends
  return one;
}

}  // namespace vram::record
