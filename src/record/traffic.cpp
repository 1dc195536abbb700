#include "record/traffic.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace vram::record {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kRingPollInterval{50};
// A disk that takes longer for what the flusher has in hand is a slow one.
constexpr std::chrono::milliseconds kMaxDiskTime{100};
// A flusher that works says so more often.
constexpr std::chrono::milliseconds kMaxSilence{50};
constexpr int64_t kShareOfTime = 100;

}  // namespace

Record* Traffic::wait_for_place(Ring& ring) {
  uint64_t seen = progress();
  auto got_on = SteadyClock::now();
  while (timeout_ns_.load(std::memory_order_relaxed) > 0) {
    if (Record* place = ring.claim(); place != nullptr) return place;
    flush_soon();
    const auto begin = SteadyClock::now();
    std::this_thread::sleep_for(kRingPollInterval);
    const auto now = SteadyClock::now();
    if (const uint64_t before = std::exchange(seen, progress()); before != seen) {
      got_on = now;
    } else if (is_on_disk_.load(std::memory_order_relaxed) || now - got_on > kMaxSilence) {
      const std::chrono::nanoseconds waited = now - begin;
      timeout_ns_.fetch_sub(waited.count(), std::memory_order_relaxed);
    }
  }
  return ring.claim();
}

void Traffic::note_cycle(std::chrono::nanoseconds duration) {
  const std::chrono::nanoseconds on_disk(disk_time_ns_.exchange(0, std::memory_order_relaxed));
  const int64_t left = timeout_ns_.load(std::memory_order_relaxed);
  if (on_disk > kMaxDiskTime || left >= kMaxWait.count()) return;
  const int64_t more = std::min(duration.count() / kShareOfTime, kMaxWait.count() - left);
  timeout_ns_.fetch_add(more, std::memory_order_relaxed);
}

Traffic& traffic() {
  static Traffic& one = *new Traffic;  // never destroyed: threads may record while the process ends
  return one;
}

}  // namespace vram::record
