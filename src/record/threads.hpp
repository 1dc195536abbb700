// What a thread has of the recorder: its ring, and the scopes that it has open. Rings are made at a
// thread's first record, given back when it ends (after the destructors of its thread_local
// variables, which may still record), and used again by later threads once they are empty.
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
    // nullptr: the thread has come to its end, or a signal's handler has interrupted it within
    // another turn, or there is no memory for a ring.
    [[nodiscard]] Ring* ring() const { return ring_; }

   private:
    Own* own_;
    Ring* ring_ = nullptr;
    bool is_outermost_ = false;
  };

  // All there are. The flusher takes from each; those of ended threads become free once empty.
  template <typename Visit>
  static void for_each(Visit visit) {
    const std::lock_guard guard(all().lock);
    for (const auto& entry : all().entries) visit(*entry->ring);
  }
  // No for_each() is running, nor does one begin.
  static std::mutex& lock() { return all().lock; }
  // In the child of a fork: only the calling thread goes on. The lock is held.
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
  // What a thread has; without a destructor (base/thread_end.hpp).
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

// The scopes of threads. A thread that has none open is taken to work for the thread that opened
// the first scope of the process, as autograd's threads do: it has that one's. When that thread has
// ended, the next one to open a scope takes its place.
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
  // In the child of a fork: only the calling thread goes on.
  static void forget_other_threads();
};

}  // namespace vram::record
