#include "record/stacks/python_stack.hpp"

#include "base/thread_end.hpp"
#include "record/stacks/cpython.hpp"
#include "record/stacks/native_stack.hpp"
#include "record/stacks/raw_frames.hpp"
#include "record/stacks/stack_cache.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::record {
namespace {

using Object = CPython::Object;

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
  static const CPython functions = [] {
    const CPython found = CPython::find();
    for_stacks.this_thread.store(found.this_thread, std::memory_order_relaxed);
    for_stacks.is_initialized.store(found.is_initialized, std::memory_order_release);
    return found;
  }();
  return functions;
}

// Beyond the limit. Its code may be freed, so neither it nor its stack may be recognized later.
constexpr FrameNumber kUnknownPlace = kNativeFrame - 1;

class Frames {
 public:
  void set_max(size_t max_places) { max_places_.store(max_places, std::memory_order_relaxed); }
  // The GIL is held, the lock not: what Python is asked may let another thread have the GIL.
  FrameNumber number_of(const Place& place) {
    if (const auto known = find(place)) return *known;
    if (is_full()) return kUnknownPlace;
    FrameText text = describe(place);
    python().keep(place.code);  // another code object must not take its address
    const auto [number, is_new] = add(place, std::move(text));
    if (!is_new) python().drop(place.code);
    return number;
  }
  FrameText text(FrameNumber number) {
    const std::lock_guard guard(lock_);
    return number < texts_.size() ? texts_[number] : FrameText{.function = "?", .file = "?"};
  }

 private:
  std::optional<FrameNumber> find(const Place& place) {
    const std::lock_guard guard(lock_);
    const auto found = numbers_.find(place);
    return found != numbers_.end() ? std::optional(found->second) : std::nullopt;
  }
  std::pair<FrameNumber, bool> add(const Place& place, FrameText text) {
    const std::lock_guard guard(lock_);
    const auto number = static_cast<FrameNumber>(texts_.size());
    const auto [found, is_new] = numbers_.try_emplace(place, number);
    if (is_new) texts_.push_back(std::move(text));
    return {found->second, is_new};
  }
  static FrameText describe(const Place& place) {
    const bool by_instruction = python().last_instruction_of != nullptr;
    const int line = by_instruction ? python().line_at(place.code, place.position) : place.position;
    return {attribute(place.code, by_instruction ? "co_qualname" : "co_name"),
            attribute(place.code, "co_filename"), static_cast<uint32_t>(line > 0 ? line : 0)};
  }
  // A name need not be valid text: files have bytes in theirs that are none, as "\udcff".
  static std::string attribute(Object* code, const char* name) {
    Object* value = python().attribute(code, name);  // code objects have both
    if (value == nullptr) return {};
    Object* bytes = python().encode(value, "utf-8", "backslashreplace");
    python().drop(value);
    if (bytes == nullptr) return {};
    std::string copy(python().bytes_of(bytes), static_cast<size_t>(python().size_of(bytes)));
    python().drop(bytes);
    return copy;
  }

  bool is_full() {
    const std::lock_guard guard(lock_);
    return texts_.size() >= max_places_.load(std::memory_order_relaxed);
  }

  ForkLock lock_;
  std::atomic<size_t> max_places_{SIZE_MAX};
  std::unordered_map<Place, FrameNumber, HashOfPlace> numbers_;
  std::vector<FrameText> texts_;
};

Frames& frames() {
  static Frames& all = *new Frames;
  return all;
}

// What this thread has met lately: most frames of a stack are those of the stack before. Code that
// was met is never freed, so an address means the same for good.
class FrameCache {
 public:
  FrameNumber number_of(const Place& place) {
    Entry& entry = entries_[HashOfPlace{}(place) % entries_.size()];
    if (entry.place == place) return entry.number;
    const FrameNumber number = frames().number_of(place);
    if (number != kUnknownPlace) entry = {place, number};
    return number;
  }

 private:
  struct Entry {
    Place place;
    FrameNumber number = 0;
  };
  std::array<Entry, 1024> entries_;
};

struct Met {
  FrameCache frames;
  StackCache stacks;
  FrameChain chain;
};

FrameNumber number_of(Object* frame, FrameCache& met, Object*& code) {
  code = python().code_of(frame);
  const int position = python().last_instruction_of != nullptr ? python().last_instruction_of(frame)
                                                               : python().line_of(frame);
  const FrameNumber number = met.number_of({code, position});
  python().drop(code);
  return number;
}

// For the time of a walk: an exception that is set is put away, as Python's functions want none,
// and what they set is dropped; and no garbage is collected, whose finalizers are the program's
// code.
class ErrorStateGuard {
 public:
  ErrorStateGuard() {
    python().take_error(&type_, &value_, &traceback_);
    if (python().disable_collection != nullptr) was_on_ = python().disable_collection() != 0;
  }
  ErrorStateGuard(const ErrorStateGuard&) = delete;
  ErrorStateGuard& operator=(const ErrorStateGuard&) = delete;
  ~ErrorStateGuard() {
    if (was_on_) (void)python().enable_collection();
    python().set_error(type_, value_, traceback_);
  }

 private:
  Object* type_ = nullptr;
  Object* value_ = nullptr;
  Object* traceback_ = nullptr;
  bool was_on_ = false;
};

// Whether all of its code stays, so that the stack can be recognized by its hash.
bool is_known(StackId stack) {
  const std::vector<FrameNumber> numbers = stores().stacks.frames(stack);
  return stack != 0 && std::ranges::find(numbers, kUnknownPlace) == numbers.end();
}

Met* met_by_this_thread() {
  __attribute__((tls_model("initial-exec"))) constinit static thread_local ThreadOwned<Met> met;
  return met.get();
}

// The GIL is held. The thread is this one, or waits for this one.
StackId walk(Object* thread) {
  Met* const met = met_by_this_thread();
  if (met == nullptr) return 0;
  const uint64_t hash = RawFrames::hash(thread, met->chain);
  if (const StackId known = hash != 0 ? met->stacks.find(hash) : 0; known != 0) return known;
  const ErrorStateGuard quiet;
  std::array<FrameNumber, PythonStacks::kMaxFrames> numbers;
  std::array<Object*, PythonStacks::kMaxFrames> codes;
  size_t count = 0;
  Object* frame = python().frame_of(thread);
  while (frame != nullptr) {
    if (count < numbers.size()) {
      numbers[count] = number_of(frame, met->frames, codes[count]);
      ++count;
    }
    Object* outer = count < numbers.size() ? python().back_of(frame) : nullptr;
    python().drop(frame);
    frame = outer;
  }
  const StackId stack = stores().stacks.intern(std::span(numbers).first(count));
  if (hash != 0 && is_known(stack) && RawFrames::confirm(thread, std::span(codes).first(count)))
    met->stacks.add(hash, stack);
  return stack;
}

}  // namespace

void PythonStacks::prepare() {
  (void)python();
  (void)frames();
  RawFrames::prepare();
}

bool PythonStacks::is_available() {
  if (for_stacks.is_initialized.load(std::memory_order_acquire) == nullptr &&
      !python().is_complete()) {
    return false;
  }
  return for_stacks.is_initialized.load(std::memory_order_relaxed)() != 0;
}

namespace {

// Not by "PyGILState_Check", which is true in every thread once there are subinterpreters.
bool holds_gil(Object* thread) {
  return python().attached_thread != nullptr && python().attached_thread() == thread;
}

std::atomic<bool> is_closed{false};
std::atomic<int> waiting_count{0};  // threads that wait for the GIL, or have it, to be walked

// Such a thread. An interpreter that ends would end it.
class Waiting {
 public:
  Waiting() {
    static const int kWatched =
        pthread_atfork(nullptr, nullptr, [] { waiting_count.store(0); });  // they are the parent's
    (void)kWatched;
    ++waiting_count;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { --waiting_count; }
  // Sequentially consistent: close() sees the count, or this its flag.
  [[nodiscard]] static bool may_go_on() { return !is_closed.load(); }
};

enum class Code : uint8_t { kUnknown, kNone, kSome };

struct Captured {
  StackId stack = 0;
  Code code = Code::kUnknown;  // whether this thread runs Python code
};

[[gnu::cold]] bool is_finalizing() {
  return python().is_finalizing != nullptr && python().is_finalizing() != 0;
}

// This thread's frames stand still, with the GIL or without it, which PyTorch releases around its
// operators: stacks that this thread has met before are known by their hash alone. An interpreter
// that ends is no longer initialized.
template <typename Walk>
Captured capture_by(const Walk& walk_with_gil) {
  if (!PythonStacks::is_available()) return {};
  Object* const thread = for_stacks.this_thread.load(std::memory_order_relaxed)();
  if (thread == nullptr || RawFrames::has_none(thread)) return {0, Code::kNone};
  Met* const met = met_by_this_thread();
  const uint64_t hash = met != nullptr ? RawFrames::hash(thread, met->chain) : 0;
  if (const StackId known = hash != 0 ? met->stacks.find(hash) : 0; known != 0)
    return {known, Code::kSome};
  if (is_finalizing()) return {0, Code::kSome};
  if (holds_gil(thread)) return {walk(thread), Code::kSome};
  const StackId stack = walk_with_gil(thread);
  // Another thread may have walked, and found that the layout is not what it was taken for.
  if (hash != 0 && is_known(stack) && RawFrames::hash(thread, met->chain) == hash)
    met->stacks.add(hash, stack);
  return {stack, Code::kSome};
}

}  // namespace

StackId PythonStacks::capture() {
  const auto walk_with_gil = [](Object* thread) -> StackId {
    const Waiting waiting;
    if (!Waiting::may_go_on()) return 0;
    const int state = python().ensure();
    const StackId stack = walk(thread);
    python().release(state);
    return stack;
  };
  return capture_by(walk_with_gil).stack;
}

StackId PythonStacks::try_capture(std::chrono::milliseconds timeout) {
  bool is_without_code = false;
  return try_capture(timeout, is_without_code);
}

StackId PythonStacks::try_capture(std::chrono::milliseconds timeout, bool& is_without_code) {
  const auto walk_with_gil = [timeout](Object* thread) -> StackId {
    return is_closed.load() ? 0 : GilThread::request(python(), &walk, thread, timeout);
  };
  const Captured captured = capture_by(walk_with_gil);
  is_without_code = captured.code == Code::kNone;
  return captured.stack;
}

void PythonStacks::close() {
  is_closed.store(true);
  const auto deadline = std::chrono::steady_clock::now() + kClosingTime;
  while (waiting_count.load() != 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void PythonStacks::set_limited(bool is_limited) {
  frames().set_max(is_limited ? kMaxPlaces : SIZE_MAX);
}

FrameText PythonStacks::describe(FrameNumber frame) { return frames().text(frame); }

}  // namespace vram::record
