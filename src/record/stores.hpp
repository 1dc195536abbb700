// Texts and stacks, numbered once for the whole process: records refer to them, and the flusher
// writes them to each file that needs them. May be used from any thread; a lock is held during a
// lookup. They only grow.
#pragma once

#include "record/record.hpp"
#include "record/signal_guard.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vram::record {

class TextStore {
 public:
  TextStore();
  [[nodiscard]] TextId intern(std::string_view text);
  [[nodiscard]] std::string text(TextId id);
  // Its place, which never changes.
  [[nodiscard]] const std::string* stable(TextId id);
  // For a fork.
  [[nodiscard]] TableLock& lock() { return lock_; }
  void set_max_bytes(size_t max_bytes) { max_bytes_ = max_bytes; }

 private:
  std::atomic<size_t> max_bytes_{SIZE_MAX};
  size_t bytes_ = 0;
  TableLock lock_;
  std::deque<std::string> texts_;  // never move: views into them are keys
  std::unordered_map<std::string_view, TextId> ids_;
};

// One level of a stack: a program counter, or a position in Python code, and its description.
struct FrameText {
  std::string function;
  std::string file;
  uint32_t line = 0;
};

using FrameNumber = uint32_t;

// A stack is its frames, innermost first.
class StackStore {
 public:
  StackStore();
  [[nodiscard]] StackId intern(std::span<const FrameNumber> frames);
  [[nodiscard]] std::vector<FrameNumber> frames(StackId id);
  // For a fork.
  [[nodiscard]] TableLock& lock() { return lock_; }
  void set_limits(size_t max_stacks, size_t max_frames) {
    max_stacks_ = max_stacks;
    max_frames_ = max_frames;
  }

 private:
  struct Place {
    uint64_t first = 0;
    uint32_t count = 0;
  };
  [[nodiscard]] bool equals(StackId id, std::span<const FrameNumber> frames) const;
  void grow();

  std::atomic<size_t> max_stacks_{SIZE_MAX};
  std::atomic<size_t> max_frames_{SIZE_MAX};
  TableLock lock_;
  std::vector<FrameNumber> frames_;
  std::vector<Place> stacks_;
  std::vector<uint64_t> hashes_;
  std::vector<StackId> slots_;  // open addressing; 0 is free
};

struct Stores {
  TextStore texts;
  StackStore stacks;

  // For a flight recorder, whose memory is bounded: what is new beyond a limit gets number 0, as
  // if it were unknown. Until it ends.
  void set_limited(bool is_limited);
};

// Those of this process.
[[nodiscard]] Stores& stores();

}  // namespace vram::record
