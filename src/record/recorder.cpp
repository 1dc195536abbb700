#include "record/recorder.hpp"

#include "base/result.hpp"
#include "base/ticks.hpp"
#include "record/file/file_sink.hpp"
#include "record/flusher.hpp"
#include "record/process.hpp"
#include "record/signal_guard.hpp"
#include "record/stacks/native_stack.hpp"
#include "record/stacks/python_stack.hpp"
#include "record/threads.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <utility>

namespace vram::record {
namespace {

// For a thread that is starting or stopping a recording while another one forks.
constexpr std::chrono::milliseconds kMaxWaitToFork{1000};

struct State {
  std::mutex lock;  // of starting and stopping
  RecorderOptions options;
  std::shared_ptr<Flusher> flusher;  // of the recording that runs, nullptr before its first record
  std::optional<Error> failure;      // why it has none
  RecorderCounts counts;             // of the last one that ended
  std::string path;
  bool is_started = false;  // until it is stopped
  bool is_child = false;    // the options are from before a fork
  uint64_t first_number = 0;
  std::atomic<uint64_t> step{0};
};

State& state() {
  static State& one = *new State;
  return one;
}

Existing existing_for(const RecorderOptions& options) {
  if (options.is_lazy) return Existing::kKeep;
  return options.replace == Replace::kAny ? Existing::kReplaceAny : Existing::kReplaceOwn;
}

// The lock is held.
Result<> start_flusher() {
  RecorderOptions& options = state().options;
  if (std::exchange(state().is_child, false)) renew_facts(options.facts);
  VRAM_TRY_ASSIGN(auto flusher, Flusher::start({.recording = {.path = options.path,
                                                              .existing = existing_for(options),
                                                              .limit_bytes = options.limit_bytes,
                                                              .describe = &describe_frame,
                                                              .facts = options.facts},
                                                .is_lazy = options.is_lazy,
                                                .flight = options.flight,
                                                .page = options.page},
                                               &Recorder::switch_off));
  state().flusher = std::move(flusher);
  return {};
}

// A flight recorder's memory is bounded.
void set_limited(bool is_limited) {
  stores().set_limited(is_limited);
  PythonStacks::set_limited(is_limited);
}

// The lock is held.
RecorderCounts count() {
  const Flusher* const flusher = state().flusher.get();
  if (flusher == nullptr) {
    // A thread that is late from the recording before may have put a record without waking one.
    const uint64_t put = Traffic::numbers.counted() - state().first_number;
    return {.lost_records = traffic().given_up.counted() + put};
  }
  const RecordCounts records = flusher->counts();
  return {flusher->events(), records.written, records.lost, flusher->file_bytes()};
}

// Of the dump for the last request of this thread that failed; 0: none.
constinit thread_local uint64_t ticket_of_oom = 0;

// Where every thread that changes the process's tables stands still.
std::array<TableLock*, 3> locks_of_tables() {
  return {&Rings::lock(), &stores().texts.lock(), &stores().stacks.lock()};
}

}  // namespace

// A thread that is starting or stopping may wait for the disk: the fork continues without it then,
// and the child records nothing more.
struct ForkHandlers {
  // Threads may fork at the same time.
  static inline constinit thread_local bool has_lock = false;

  static void prepare() {
    const auto deadline = std::chrono::steady_clock::now() + kMaxWaitToFork;
    while (!(has_lock = state().lock.try_lock()) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    for (TableLock* lock : locks_of_tables()) lock->lock();
  }
  static void release_tables() {
    for (TableLock* lock : locks_of_tables()) lock->unlock();
  }
  static void in_parent() {
    release_tables();
    if (has_lock) state().lock.unlock();
  }
  static void in_child() {
    Recorder::begin_child(has_lock);
    release_tables();
    if (has_lock) state().lock.unlock();
  }
};

namespace {
// From the start of the process on: a fork that began before the handlers were installed would run
// none of them, and its child could inherit the lock of a thread that starts the first recording.
// The locks of the stacks' tables are taken last: the thread that starts the first recording makes
// them, and the fork waits for it.
[[maybe_unused]] const int kWatchesForks =
    ForkLock::watch_forks() +
    pthread_atfork(&ForkHandlers::prepare, &ForkHandlers::in_parent, &ForkHandlers::in_child);
}  // namespace

// The flusher is the parent's, and so is what is in the rings. Its object is not destroyed: a
// thread was in it.
void Recorder::begin_child(bool is_whole) {
  SignalGuard::forget();
  FileSink::close_all_in_child();
  traffic().begin_child();
  dumps().drop_all();
  for_records.is_flight = false;
  set_limited(false);
  Rings::forget_other_threads();
  ScopeStack::forget_other_threads();
  const bool goes_on = is_whole && is_on() && state().options.is_lazy;
  if (!is_whole) (void)new (&state()) State;  // another thread was changing it
  state().is_started = goes_on;
  state().is_child = true;
  if (state().flusher) (void)new std::shared_ptr<Flusher>(std::move(state().flusher));
  state().flusher.reset();
  state().failure.reset();
  state().counts = {};
  state().path.clear();
  for_records.phase = Phase::kAsleep;
  state().first_number = Traffic::numbers.counted();
  if (goes_on) return traffic().given_up.open_at_zero();
  for_records.is_on.store(false, std::memory_order_relaxed);
  (void)Traffic::numbers.close();
  (void)traffic().given_up.close();
}

Result<> Recorder::start(const RecorderOptions& options) {
  const std::lock_guard guard(state().lock);
  if (state().is_started) {
    return fail(Code::kBadInput, "{} is being recorded already; stop that first",
                state().options.path);
  }
  NativeStacks::prepare();
  PythonStacks::prepare();
  state().options = options;
  for_records.stacks.store(options.stacks, std::memory_order_relaxed);
  set_limited(options.flight.has_value());
  dumps().drop_all();
  state().is_child = false;
  state().failure.reset();
  state().step.store(0);
  for_records.stated_ns.store(0);
  for_records.has_tick_counter = has_tick_counter();
  if (!options.is_lazy) {
    VRAM_TRY(start_flusher());
  }
  state().counts = {};
  state().path.clear();
  traffic().reset_timeout();
  traffic().given_up.open_at_zero();
  for_records.phase = options.is_lazy ? Phase::kAsleep : Phase::kRunning;
  state().first_number = Traffic::numbers.open();
  state().is_started = true;
  for_records.is_flight = options.flight.has_value();
  for_records.is_on.store(true, std::memory_order_release);
  if (!options.is_lazy) state().flusher->begin(state().first_number);
  return {};
}

Result<> Recorder::stop() {
  const std::lock_guard guard(state().lock);
  if (!std::exchange(state().is_started, false)) return {};
  for_records.is_on.store(false);
  for_records.is_flight = false;
  (void)traffic().given_up.close();
  const uint64_t end = Traffic::numbers.close();
  Result<> done;
  if (state().failure) done = tl::unexpected(*std::exchange(state().failure, std::nullopt));
  if (state().flusher != nullptr) done = state().flusher->stop(end);
  state().counts = count();
  if (state().flusher != nullptr) state().path = state().flusher->path();
  state().flusher.reset();
  dumps().drop_all();
  set_limited(false);
  return done;
}

RecorderCounts Recorder::counts() {
  const std::lock_guard guard(state().lock);
  return state().is_started ? count() : state().counts;
}

bool Recorder::is_started() {
  const std::lock_guard guard(state().lock);
  return state().is_started;
}

size_t Recorder::copy_path(std::span<char> room) {
  const std::lock_guard guard(state().lock);
  const std::string path = state().flusher != nullptr ? state().flusher->path() : state().path;
  (void)std::snprintf(room.data(), room.size(), "%s", path.c_str());
  return path.size();
}

StackId Recorder::capture_stack() {
  if (!is_on()) return 0;
  switch (for_records.stacks.load(std::memory_order_relaxed)) {
    case Stacks::kPython:
      return PythonStacks::capture();
    case Stacks::kNative:
      return NativeStacks::capture();
    case Stacks::kNone:
      break;
  }
  return 0;
}

StackId Recorder::try_capture_stack(std::chrono::milliseconds timeout) {
  if (!is_on() || for_records.stacks.load(std::memory_order_relaxed) != Stacks::kPython)
    return capture_stack();
  bool is_without_code = false;
  const StackId stack = PythonStacks::try_capture(timeout, is_without_code);
  // Unwinding costs more than autograd's threads do between two requests.
  if (stack != 0 || is_without_code) return stack;
  return NativeStacks::capture();
}

void Recorder::python_ends() { PythonStacks::close(); }

bool Recorder::wake_flusher() {
  if (!is_on() || for_records.phase == Phase::kFailed) return false;
  const std::lock_guard guard(state().lock);
  if (!is_on()) return false;
  if (for_records.phase != Phase::kAsleep) return for_records.phase == Phase::kRunning;
  if (auto done = start_flusher(); !done) {
    state().failure = std::move(done.error());
    for_records.phase = Phase::kFailed;
    switch_off();
    return false;
  }
  state().flusher->begin(state().first_number);
  for_records.phase.store(Phase::kRunning, std::memory_order_release);
  return true;
}

Record* Recorder::wait_for_place(Ring& ring) { return traffic().wait_for_place(ring); }

bool Recorder::give_up() { return traffic().given_up.add().has_value(); }

void Recorder::flush_soon() { traffic().flush_soon(); }

// A flight recorder writes a file, for which settle() waits.
void Recorder::note_oom() {
  if (!for_records.is_flight.load(std::memory_order_relaxed)) return;
  ticket_of_oom = dumps().request(DumpReason::kOom);
  traffic().flush_soon();
}

void Recorder::settle() {
  if (ticket_of_oom == 0) return;
  (void)dumps().wait(std::exchange(ticket_of_oom, 0), kMaxDumpTime);
}

bool Recorder::is_flight() { return for_records.is_flight.load(); }

uint64_t Recorder::steps() { return state().step.load(std::memory_order_relaxed); }

Result<std::string> Recorder::dump(std::chrono::milliseconds timeout) {
  std::shared_ptr<Flusher> flusher;
  {
    const std::lock_guard guard(state().lock);
    if (!state().is_started || !for_records.is_flight)
      return fail(Code::kBadInput, "no flight recorder runs in this process");
    flusher = state().flusher;
  }
  const uint64_t ticket = dumps().request(DumpReason::kRequest);
  traffic().flush_soon();
  if (!dumps().wait(ticket, timeout))
    return fail(Code::kIo, "the flight recorder has written no file within {} s",
                timeout.count() / 1000);
  const auto last = flusher->dump_since(ticket);
  if (!last) return fail(Code::kIo, "the flight recorder ended before it wrote the file");
  return *last;
}

void Recorder::scope_begin(std::string_view name) {
  const ScopeStack::Opened opened = ScopeStack::open(name);
  if (opened.name != 0) emit({.scope = opened.path, .text = opened.name, .op = Op::kScopeBegin});
}

void Recorder::scope_end() {
  const TextId name = ScopeStack::close();
  if (name != 0) emit({.text = name, .op = Op::kScopeEnd});
}

uint64_t Recorder::step() {
  const uint64_t number = state().step.fetch_add(1, std::memory_order_relaxed);
  emit({.address = number, .op = Op::kStep});
  return number;
}

void Recorder::state_time(int64_t time_ns) {
  if (is_on()) for_records.stated_ns.store(time_ns, std::memory_order_relaxed);
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

void Recorder::figure(uint16_t device, std::string_view name, uint64_t value) {
  if (!is_on()) return;
  emit(
      {.address = value, .text = stores().texts.intern(name), .device = device, .op = Op::kFigure});
}

void Recorder::mark(const Mark& mark) {
  if (!is_on() || for_records.phase.load(std::memory_order_acquire) == Phase::kAsleep) return;
  emit({.address = static_cast<uint64_t>(std::max<int64_t>(mark.duration_ns, 0)),
        .size_bytes = mark.size_bytes,
        .stream = static_cast<uint64_t>(mark.kind),
        .scope = stores().texts.intern(mark.group),
        .text = stores().texts.intern(mark.name),
        .device = mark.device,
        .op = Op::kMark});
}

// What a recording knows of itself is at the beginning of its children's, too.
void Recorder::record_fact(Fact fact) {
  const std::lock_guard guard(state().lock);
  if (!is_on()) return;
  if (state().flusher != nullptr) state().flusher->add(fact);
  state().options.facts.push_back(std::move(fact));
}

}  // namespace vram::record
