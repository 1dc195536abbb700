// A thread's state in the recorder: its ring and its open scopes. A ring is created at a thread's
// first record, released when the thread ends (after the destructors of its thread_local variables,
// which may still record), and reused by later threads once it is empty.
#pragma once

#include "base/thread_end.hpp"
#include "record/for_records.hpp"
#include "record/record.hpp"
#include "record/signal_guard.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

namespace vram::record {

class Rings {
 public:
  // The calling thread's turn to put one record into its ring. A signal's handler may begin a turn
  // at any instruction of another one.
  class Turn {
   public:
    Turn() : is_outermost_(!of_thread.is_writing) {
      if (!is_outermost_) return;
      of_thread.is_writing = true;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      ring_ = of_thread.ring != nullptr ? of_thread.ring : take();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (is_outermost_) of_thread.is_writing = false;
    }
    // nullptr: the thread has ended, or a signal handler interrupted it while it was writing a
    // record, or no memory is available for a ring.
    [[nodiscard]] Ring* ring() const { return ring_; }

   private:
    Ring* ring_ = nullptr;
    const bool is_outermost_;
  };

  // Visits all rings. The flusher empties them; rings of ended threads become free once empty.
  template <typename Visit>
  static void for_each(Visit visit) {
    const std::lock_guard guard(all().lock);
    for (const auto& entry : all().entries) visit(*entry->ring);
  }
  // No for_each() is running, nor does one begin.
  static TableLock& lock() { return all().lock; }
  // In the child of a fork, where only the calling thread exists. The lock is held.
  static void forget_other_threads();

 private:
  struct Entry {
    std::unique_ptr<Ring> ring = std::make_unique<Ring>();
    std::atomic<bool> is_owned{true};
  };
  struct All {
    TableLock lock;
    std::vector<std::unique_ptr<Entry>> entries;
  };
  // What becomes of the calling thread's ring at its end; has no destructor (base/thread_end.hpp).
  struct Own {
    Entry* entry = nullptr;
    ThreadEndHook hook;
  };
  static All& all();
  static Own& own();
  // A ring for the calling thread, which has none.
  [[gnu::cold]] [[nodiscard]] static Ring* take();
  [[nodiscard]] static Entry* find_entry();
  static void give_back(void* own);
};

// The scopes of threads. A thread without an open scope uses the scope of the thread that opened
// the first scope of the process, as autograd's threads need. When that thread has ended, the next
// thread that opens a scope takes its place.
class ScopeStack {
 public:
  static constexpr uint32_t kMaxNestedScopes = 64;  // deeper ones count for the one around them

  // Opens a scope in the calling thread; its path's and its own text. Without its own text, as
  // beyond kMaxNestedScopes, neither its beginning nor its end is recorded.
  struct Opened {
    TextId path = 0;
    TextId name = 0;
  };
  static Opened open(std::string_view name);
  // Closes the innermost; its name's text, 0 where none is open.
  static TextId close();
  // The path in which the calling thread is.
  [[nodiscard]] static TextId current() {
    return of_thread.has_scope ? of_thread.path
                               : for_records.leaders_path.load(std::memory_order_relaxed);
  }
  // In the child of a fork, where only the calling thread exists.
  static void forget_other_threads();
};

// Traffic: the state shared by recording threads and the flusher. It belongs to the process, since
// a late thread may use it after its recording has ended.

// Counts while it is open. Who counts and who closes agree on what was counted before the end.
// Alone in its line of the cache, which other threads would take from those that count.
class alignas(64) Counter {
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

  // The order of all records of the process; open while something is recorded. Not a member of the
  // object, since each record needs it.
  inline static constinit Counter numbers;
  // Records of the recording that got no number, since there was no place for them.
  Counter given_up;

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

  void flush_soon() {
    const SignalGuard guard;  // of the condition variable's own lock
    wake_.notify_one();
  }
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
