// A thread's state in the recorder: its ring and its open scopes. A ring is created at a thread's
// first record, released when the thread ends (after the destructors of its thread_local variables,
// which may still record), and reused by later threads once it is empty.
#pragma once

#include "base/thread_end.hpp"
#include "record/ring.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace vram::record {

class Rings {
  struct Entry;
  struct Own;

 public:
  // The calling thread's turn to put one record into its ring.
  class Turn {
   public:
    Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();
    // nullptr: the thread has ended, or a signal handler interrupted it while it was writing a
    // record, or no memory is available for a ring.
    [[nodiscard]] Ring* ring() const { return ring_; }

   private:
    Own* own_;
    Ring* ring_ = nullptr;
    bool is_outermost_ = false;
  };

  // Visits all rings. The flusher empties them; rings of ended threads become free once empty.
  template <typename Visit>
  static void for_each(Visit visit) {
    const std::lock_guard guard(all().lock);
    for (const auto& entry : all().entries) visit(*entry->ring);
  }
  // No for_each() is running, nor does one begin.
  static std::mutex& lock() { return all().lock; }
  // In the child of a fork, where only the calling thread exists. The lock is held.
  static void forget_other_threads();

 private:
  struct Entry {
    std::unique_ptr<Ring> ring = std::make_unique<Ring>();
    std::atomic<bool> is_owned{true};
  };
  struct All {
    std::mutex lock;
    std::vector<std::unique_ptr<Entry>> entries;
  };
  // A thread's state; has no destructor (base/thread_end.hpp).
  struct Own {
    Entry* entry = nullptr;
    bool is_writing = false;
    ThreadEndHook hook;
  };
  static All& all();
  static Own& own();
  [[nodiscard]] static Entry* take();
  static void give_back(void* own);
};

// The scopes of threads. A thread without an open scope uses the scope of the thread that opened
// the first scope of the process, as autograd's threads need. When that thread has ended, the next
// thread that opens a scope takes its place.
class ScopeStack {
 public:
  static constexpr uint32_t kMaxNestedScopes = 64;  // deeper ones count for the one around them

  // Opens a scope in the calling thread; its path's and its own text.
  struct Opened {
    TextId path = 0;
    TextId name = 0;
  };
  static Opened open(std::string_view name);
  // Closes the innermost; its name's text, 0 where none is open.
  static TextId close();
  // The path in which the calling thread is.
  [[nodiscard]] static TextId current();
  // In the child of a fork, where only the calling thread exists.
  static void forget_other_threads();
};

}  // namespace vram::record
