// Traffic: what the threads that record and the flusher share. Of the process, not of a recording:
// a thread that is late may still use it when its recording has ended.
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
  // How many there were before; nothing once it is closed.
  std::optional<uint64_t> add() {
    const uint64_t before = value_.fetch_add(1, std::memory_order_acq_rel);
    return (before & kClosed) == 0 ? std::optional(before) : std::nullopt;
  }
  // How many were counted; what comes while it is closed is not.
  [[nodiscard]] uint64_t counted() const {
    const uint64_t value = value_.load(std::memory_order_acquire);
    return (value & kClosed) == 0 ? value : closed_at_.load(std::memory_order_acquire);
  }
  // Goes on above all numbers that there ever were, or from 0.
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

  // A place in a ring that is full, once the flusher has made one; nullptr: the thread has waited
  // long enough. All threads together wait kMaxWait for a disk, or a flusher that does not get on
  // for another reason, and are then answered at once, until it does. While the flusher works, they
  // wait for it: it takes less than a microsecond for a record.
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
  // It has taken what there was, and written it, within that time: if little of it went to the
  // disk, threads may wait again, for a hundredth of it.
  void note_cycle(std::chrono::nanoseconds duration);
  void reset_timeout() { timeout_ns_.store(kMaxWait.count(), std::memory_order_relaxed); }

  void flush_soon() { wake_.notify_one(); }
  // The flusher sleeps that long at most, unless has_reason() says otherwise.
  template <typename HasReason>
  void sleep(std::chrono::milliseconds time, const HasReason& has_reason) {
    std::unique_lock guard(lock_);
    if (!has_reason()) (void)wake_.wait_for(guard, time);
  }
  // In the child of a fork, which has no flusher: nobody sleeps here.
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
