#include "record/stacks/python_stack.hpp"

#include "base/thread_owned.hpp"
#include "record/stacks/cpython.hpp"

#include <array>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace vram::record {
namespace {

using Object = CPython::Object;

constexpr std::chrono::milliseconds kMaxWaitToFork{1000};
constinit thread_local bool has_lock_to_fork = false;
bool are_frames_usable = true;  // false in a child that was forked while a thread changed them

// A place in Python's code: the instruction, or the line where the interpreter tells no more.
struct Place {
  Object* code = nullptr;
  int position = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

struct HashOfPlace {
  size_t operator()(const Place& place) const {
    const auto address = reinterpret_cast<uint64_t>(place.code);
    return ((address >> 4) ^ static_cast<uint64_t>(place.position)) * 0x9e3779b97f4a7c15u >> 13;
  }
};

const CPython& python() {
  static const CPython functions = CPython::find();
  return functions;
}

// Held while the GIL is.
class Frames {
 public:
  FrameNumber number_of(const Place& place) {
    const std::lock_guard guard(lock_);
    const auto [found, is_new] = numbers_.try_emplace(place, 0);
    if (is_new) {
      found->second = static_cast<FrameNumber>(texts_.size());
      texts_.push_back(describe(place));
      python().keep(place.code);  // another code object must not take its address
    }
    return found->second;
  }
  FrameText text(FrameNumber number) {
    const std::lock_guard guard(lock_);
    return texts_[number];
  }
  std::mutex& lock() { return lock_; }

 private:
  static FrameText describe(const Place& place) {
    const bool by_instruction = python().last_instruction_of != nullptr;
    const int line = by_instruction ? python().line_at(place.code, place.position) : place.position;
    return {attribute(place.code, by_instruction ? "co_qualname" : "co_name"),
            attribute(place.code, "co_filename"), static_cast<uint32_t>(line > 0 ? line : 0)};
  }
  static std::string attribute(Object* code, const char* name) {
    Object* value = python().attribute(code, name);  // code objects have both
    if (value == nullptr) return {};
    ptrdiff_t bytes = 0;
    const char* text = python().text_of(value, &bytes);
    std::string copy = text != nullptr ? std::string(text, static_cast<size_t>(bytes)) : "";
    python().drop(value);
    return copy;
  }

  std::mutex lock_;  // the GIL would do, but not every interpreter has one
  std::unordered_map<Place, FrameNumber, HashOfPlace> numbers_;
  std::vector<FrameText> texts_;
};

Frames& frames() {
  static Frames& all = *new Frames;
  return all;
}

// What this thread has met lately: most frames of a stack are those of the stack before. Code that
// was met is never freed, so an address means the same for good.
class LatelyMet {
 public:
  FrameNumber number_of(const Place& place) {
    Entry& entry = entries_[HashOfPlace{}(place) % entries_.size()];
    if (!(entry.place == place)) entry = {place, frames().number_of(place)};
    return entry.number;
  }

 private:
  struct Entry {
    Place place;
    FrameNumber number = 0;
  };
  std::array<Entry, 1024> entries_;
};

FrameNumber number_of(Object* frame, LatelyMet& met) {
  Object* code = python().code_of(frame);
  const int position = python().last_instruction_of != nullptr ? python().last_instruction_of(frame)
                                                               : python().line_of(frame);
  const FrameNumber number = met.number_of({code, position});
  python().drop(code);
  return number;
}

// The GIL is held.
StackId walk(Object* thread) {
  constinit static thread_local ThreadOwned<LatelyMet> lately_met;
  LatelyMet* const met = lately_met.get();
  if (met == nullptr) return 0;
  std::array<FrameNumber, PythonStacks::kMostFrames> numbers;
  size_t count = 0;
  Object* frame = python().frame_of(thread);
  while (frame != nullptr) {
    if (count < numbers.size()) numbers[count++] = number_of(frame, *met);
    Object* outer = count < numbers.size() ? python().back_of(frame) : nullptr;
    python().drop(frame);
    frame = outer;
  }
  return stores().stacks.intern(std::span(numbers).first(count));
}

}  // namespace

bool PythonStacks::is_available() {
  return python().is_complete() && python().is_initialized() != 0;
}

StackId PythonStacks::capture() {
  if (!are_frames_usable || !is_available()) return 0;
  if (python().is_finalizing != nullptr && python().is_finalizing() != 0) return 0;
  Object* thread = python().this_thread();
  if (thread == nullptr) return 0;  // a thread that Python has never seen runs no Python code
  const int state = python().ensure();
  const StackId stack = walk(thread);
  python().release(state);
  return stack;
}

void PythonStacks::before_fork() {
  const auto deadline = std::chrono::steady_clock::now() + kMaxWaitToFork;
  while (!(has_lock_to_fork = frames().lock().try_lock()) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void PythonStacks::after_fork(bool is_child) {
  if (has_lock_to_fork) {
    frames().lock().unlock();
  } else if (is_child) {
    are_frames_usable = false;
  }
}

FrameText PythonStacks::describe(FrameNumber frame) { return frames().text(frame); }

}  // namespace vram::record
