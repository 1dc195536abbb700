// What a thread has of the recorder: its ring, and the scopes that it has open. Rings are made at a
// thread's first record, given back when it ends, and used again by later threads once they are
// empty.
#pragma once

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
 public:
  // The calling thread's; nullptr once the thread has begun to end.
  [[nodiscard]] static Ring* own();
  // All there are. The flusher takes from each; those of ended threads become free once empty.
  template <typename Visit>
  static void for_each(Visit visit) {
    const std::lock_guard guard(all().lock);
    for (const auto& entry : all().entries) visit(*entry->ring);
  }
  // In the child of a fork: only the calling thread goes on.
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
  // Gives the ring back when the thread ends.
  struct Holder {
    Entry* entry = nullptr;
    bool has_ended = false;
    ~Holder();
  };
  static All& all();
  static Holder& holder();
  static Entry* take();
};

// The scopes of threads. A thread that has none open is taken to work for the thread that opened
// the first scope of the process, as autograd's threads do: it has that one's.
class ScopeStack {
 public:
  static constexpr uint32_t kMostOpen = 64;  // deeper ones count for the one around them

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
};

}  // namespace vram::record
