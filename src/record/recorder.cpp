#include "record/recorder.hpp"

#include "record/flusher.hpp"
#include "record/stacks/describe.hpp"
#include "record/stacks/native_stack.hpp"
#include "record/stacks/python_stack.hpp"
#include "record/threads.hpp"

#include <ctime>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <utility>

namespace vram::record {
namespace {

constexpr int kTriesForAPlace = 2000;  // of 50 us: a tenth of a second

struct State {
  std::mutex lock;  // of starting and stopping
  RecorderOptions options;
  // The last one is in use while current names it. Earlier ones stay: a thread that was late may
  // still hold one.
  std::vector<std::unique_ptr<Flusher>> flushers;
  std::vector<std::unique_ptr<Flusher>> parents;  // their threads are not here: never touched
  std::atomic<Flusher*> current{nullptr};
  std::atomic<uint64_t> sequence{1};
  std::atomic<uint64_t> step{0};
  bool watches_forks = false;
};

State& state() {
  static State& one = *new State;
  return one;
}

int64_t wall_clock_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// The lock is held.
Result<> start_flusher() {
  const RecorderOptions& options = state().options;
  auto flusher = std::make_unique<Flusher>(RecordingOptions{.path = options.path,
                                                            .limit_bytes = options.limit_bytes,
                                                            .describe = &describe_frame,
                                                            .facts = options.facts},
                                           options.is_lazy, state().sequence.load());
  if (auto done = flusher->open(); !done) return done;
  flusher->run();
  state().current.store(flusher.get(), std::memory_order_release);
  state().flushers.push_back(std::move(flusher));
  return {};
}

// The first record of a lazy recording, in this process or a child of it.
Flusher* wake_flusher() {
  const std::lock_guard guard(state().lock);
  if (state().current.load() == nullptr && Recorder::is_on()) (void)start_flusher();
  return state().current.load();
}

Record* wait_for_a_place(Ring& ring, Flusher& flusher) {
  for (int tries = 0; tries < kTriesForAPlace && Recorder::is_on(); ++tries) {
    if (Record* place = ring.claim(); place != nullptr) return place;
    flusher.hurry();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  flusher.count_lost();
  return nullptr;
}

}  // namespace

// The flusher is the parent's, and so is what lies in the rings.
void Recorder::begin_child() {
  has_recording.store(state().options.is_lazy && is_on(), std::memory_order_relaxed);
  new (&state().lock) std::mutex;
  state().current.store(nullptr);
  for (auto& flusher : state().flushers) state().parents.push_back(std::move(flusher));
  state().flushers.clear();
  stores().begin_child();
  Rings::forget_other_threads();
}

Result<> Recorder::start(const RecorderOptions& options) {
  const std::lock_guard guard(state().lock);
  if (is_on()) {
    return fail(Code::kBadInput, "{} is being recorded already; stop that first",
                state().options.path);
  }
  if (!state().watches_forks) (void)pthread_atfork(nullptr, nullptr, [] { begin_child(); });
  state().watches_forks = true;
  state().options = options;
  state().step.store(0);
  if (!options.is_lazy) {
    if (auto done = start_flusher(); !done) return done;
  }
  has_recording.store(true, std::memory_order_release);
  return {};
}

Result<> Recorder::stop() {
  const std::lock_guard guard(state().lock);
  if (!is_on()) return {};
  has_recording.store(false);
  Flusher* flusher = state().current.exchange(nullptr);
  return flusher != nullptr ? flusher->finish(state().sequence.load()) : Result<>{};
}

RecorderCounts Recorder::counts() {
  const std::lock_guard guard(state().lock);
  if (state().flushers.empty()) return {};
  const Flusher& last = *state().flushers.back();
  return {last.events(), last.lost(), last.file_bytes()};
}

size_t Recorder::copy_path(std::span<char> room) {
  if (!room.empty()) room[0] = '\0';
  const std::lock_guard guard(state().lock);
  return state().flushers.empty() ? 0 : state().flushers.back()->copy_path(room);
}

StackId Recorder::capture_stack() {
  if (!is_on()) return 0;
  switch (state().options.stacks) {
    case Stacks::kPython:
      return PythonStacks::capture();
    case Stacks::kNative:
      return NativeStacks::capture();
    case Stacks::kNone:
      break;
  }
  return 0;
}

StackId Recorder::try_capture_stack() {
  if (!is_on() || state().options.stacks != Stacks::kPython) return capture_stack();
  const StackId stack = PythonStacks::try_capture();
  return stack != 0 ? stack : NativeStacks::capture();
}

void Recorder::python_ends() { PythonStacks::close(); }

void Recorder::put(Record& record) {
  Ring* ring = Rings::own();
  Flusher* flusher = state().current.load(std::memory_order_acquire);
  if (flusher == nullptr) flusher = wake_flusher();
  if (ring == nullptr || flusher == nullptr) return;
  Record* place = ring->claim();
  if (place == nullptr) place = wait_for_a_place(*ring, *flusher);
  if (place == nullptr) return;
  record.time_ns = wall_clock_ns();
  // From here on nothing can fail: each number is in one ring.
  record.sequence = state().sequence.fetch_add(1, std::memory_order_acq_rel);
  *place = record;
  ring->publish();
  if (ring->is_filling()) flusher->hurry();
}

void Recorder::scope_begin(std::string_view name) {
  const ScopeStack::Opened opened = ScopeStack::open(name);
  emit({.scope = opened.path, .text = opened.name, .op = Op::kScopeBegin});
}

void Recorder::scope_end() {
  const TextId name = ScopeStack::close();
  if (name != 0) emit({.text = name, .op = Op::kScopeEnd});
}

void Recorder::step() {
  const uint64_t number = state().step.fetch_add(1, std::memory_order_relaxed);
  emit({.address = number, .op = Op::kStep});
}

void Recorder::name(uint16_t device, uint64_t address, uint64_t size_bytes, std::string_view name,
                    std::string_view category) {
  if (!is_on()) return;
  emit({.address = address,
        .size_bytes = size_bytes,
        .scope = stores().texts.intern(category),
        .text = stores().texts.intern(name),
        .device = device,
        .op = Op::kName});
}

// What a lazy recording knows before it begins stands at its beginning, in children, too.
void Recorder::tell(Fact fact) {
  const std::lock_guard guard(state().lock);
  if (!is_on()) return;
  if (Flusher* flusher = state().current.load(); flusher != nullptr) {
    flusher->add(std::move(fact));
  } else {
    state().options.facts.push_back(std::move(fact));
  }
}

}  // namespace vram::record
