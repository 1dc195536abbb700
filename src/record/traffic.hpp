// Traffic: the state shared by recording threads and the flusher. It belongs to the process, since
// a late thread may use it after its recording has ended.
#pragma once

#include "record/ring.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>

namespace vram::record {

// Counts while it is open. Who counts and who closes agree on what was counted before the end.
class Counter {
 public:
  // Returns the number before the increment; nothing once it is closed.
  std::optional<uint64_t> add() {
    const uint64_t before = value_.fetch_add(1, std::memory_order_acq_rel);
    return (before & kClosed) == 0 ? std::optional(before) : std::nullopt;
  }
  // How many were counted; what comes while it is closed is not.
  [[nodiscard]] uint64_t counted() const {
    const uint64_t value = value_.load(std::memory_order_acquire);
    return (value & kClosed) == 0 ? value : closed_at_.load(std::memory_order_acquire);
  }
  // Continues above all numbers used before, or from 0.
  uint64_t open() { return value_.fetch_and(~kClosed, std::memory_order_acq_rel) & ~kClosed; }
  void open_at_zero() { value_.store(0, std::memory_order_release); }
  // Answers what was counted. One thread at a time opens and closes.
  uint64_t close() {
    const uint64_t before = value_.fetch_or(kClosed, std::memory_order_acq_rel);
    if ((before & kClosed) == 0) closed_at_.store(before, std::memory_order_release);
    return closed_at_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kClosed = uint64_t{1} << 63;
  std::atomic<uint64_t> value_{kClosed};
  std::atomic<uint64_t> closed_at_{0};
};

class Traffic {
 public:
  static constexpr std::chrono::nanoseconds kMaxWait = std::chrono::milliseconds(200);

  // The order of all records of the process; open while something is recorded.
  Counter numbers;
  // Records of the recording that got no number, since there was no place for them.
  alignas(64) Counter given_up;

  // Returns a place in a full ring once the flusher has freed one; nullptr: the thread has waited
  // long enough. If the disk (or the flusher, for another reason) makes no progress, all threads
  // together wait kMaxWait; afterwards they get nullptr immediately until there is progress. While
  // the flusher makes progress, they wait for it: a record takes it less than a microsecond.
  [[nodiscard]] Record* wait_for_place(Ring& ring);

  // The flusher gets on.
  void note_progress() { progress_.store(progress() + 1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  // A call to the system that may take as long as the disk does.
  class DiskCall {
   public:
    explicit DiskCall(Traffic& traffic) : traffic_(traffic) { traffic_.is_on_disk_ = true; }
    DiskCall(const DiskCall&) = delete;
    DiskCall& operator=(const DiskCall&) = delete;
    ~DiskCall() {
      traffic_.is_on_disk_ = false;
      const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin_;
      traffic_.disk_time_ns_.fetch_add(time.count(), std::memory_order_relaxed);
    }

   private:
    Traffic& traffic_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };
  // The flusher has taken and written all records within `duration`: if little of it was spent on
  // the disk, threads may wait again, for a hundredth of it.
  void note_cycle(std::chrono::nanoseconds duration);
  void reset_timeout() { timeout_ns_.store(kMaxWait.count(), std::memory_order_relaxed); }

  void flush_soon() { wake_.notify_one(); }
  // The flusher sleeps at most this long, unless has_reason() is true.
  template <typename HasReason>
  void sleep(std::chrono::milliseconds time, const HasReason& has_reason) {
    std::unique_lock guard(lock_);
    if (!has_reason()) (void)wake_.wait_for(guard, time);
  }
  // In the child of a fork, which has no flusher: no thread sleeps here.
  void begin_child() {
    new (&lock_) std::mutex;
    new (&wake_) std::condition_variable;
    is_on_disk_ = false;
    reset_timeout();
  }

 private:
  alignas(64) std::atomic<int64_t> timeout_ns_{kMaxWait.count()};
  std::atomic<uint64_t> progress_{0};
  std::atomic<bool> is_on_disk_{false};
  std::atomic<int64_t> disk_time_ns_{0};  // since the last cycle
  std::mutex lock_;
  std::condition_variable wake_;
};

[[nodiscard]] Traffic& traffic();

}  // namespace vram::record
