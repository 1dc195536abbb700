// Recorder: the recording of this process. Code that observes an event calls emit(), which puts a
// record into its thread's ring; the flusher, a thread, merges the records of all threads in order
// and writes them (file/recording.hpp).
//
//     tap ──▶ emit ──▶ ring of the thread ─┐
//     tap ──▶ emit ──▶ ring of the thread ─┴─▶ flusher ──▶ Recording ──▶ run.vtrace
//
// emit() may be called from any thread, also while nothing is recorded (it then costs one load); it
// takes no lock, and allocates nothing once the thread has its ring. If the ring is full, the
// thread waits for the flusher for a limited time (threads.hpp) and then drops the record: each
// record is either in the file or counted as lost. Call emit() after an allocation and before a
// free, so that no record about the same address can come between.
//
// A fork waits for the short sections of other threads, so that the child finds consistent tables.
// The child of a lazy recording records into its own file; other children record nothing.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"
#include "base/ticks.hpp"
#include "record/dumps.hpp"
#include "record/flusher.hpp"
#include "record/for_records.hpp"
#include "record/process.hpp"
#include "record/record.hpp"
#include "record/stores.hpp"
#include "record/threads.hpp"
#include "trace/event.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::record {

struct RecorderOptions {
  std::string path;
  Stacks stacks = Stacks::kNone;
  uint64_t limit_bytes = 0;  // what may stay on the disk; 0: no limit
  // Creates the file with the first record, and adds the pid if the name is taken: for programs of
  // which it is unknown which processes use a GPU. Replaces no file.
  bool is_lazy = false;
  // If not lazy: replaces an existing file even if it is no recording.
  Replace replace = Replace::kOwn;
  std::vector<Fact> facts = {};
  // A flight recorder, which retains the last steps and writes files on request. Not lazy.
  std::optional<FlightOptions> flight = {};
  FlightPage page = {};
};

struct Mark {
  trace::MarkKind kind = trace::MarkKind::kOther;
  uint16_t device = kNoDevice;
  std::string_view name;
  std::string_view group;
  uint64_t size_bytes = 0;
  int64_t duration_ns = 0;
};

struct RecorderCounts {
  uint64_t events = 0;  // in the file: a record may make several, or none
  uint64_t written_records = 0;
  uint64_t lost_records = 0;
  uint64_t file_bytes = 0;
};

class Recorder {
 public:
  // kBadInput: a recording is running, or the file may not be written; see find_output_target().
  // kIo: the file cannot be created, or no thread can be started.
  [[nodiscard]] static Result<> start(const RecorderOptions& options);
  // Completes the file with all records. Returns the first error since the start; kIo: also that
  // the disk accepted nothing for Flusher::kMaxStall.
  [[nodiscard]] static Result<> stop();
  // Returns whether records are stored: no longer after a failure, such as a full disk.
  [[nodiscard]] static bool is_on() { return for_records.is_on.load(std::memory_order_relaxed); }
  // The recording has failed: what happens from now on is no part of it. Any thread.
  static void switch_off() { for_records.is_on.store(false, std::memory_order_relaxed); }
  // From start() to stop(), whether it has failed meanwhile or not.
  [[nodiscard]] static bool is_started();
  [[nodiscard]] static RecorderCounts counts();
  // Copies the path of the file, if it exists, as far as it fits, with a final 0. Returns its
  // length.
  static size_t copy_path(std::span<char> room);

  // Of a flight recorder: writes what is retained to a file and returns its path. kBadInput: none
  // runs. kIo: the file could not be written, or not in `timeout`.
  [[nodiscard]] static Result<std::string> dump(std::chrono::milliseconds timeout);
  [[nodiscard]] static bool is_flight();
  // If a request for memory of this thread has failed, a flight recorder writes a file: waits for
  // it. Call it without an allocator's lock, before the program learns of the failure.
  static void settle();
  static constexpr std::chrono::milliseconds kMaxDumpTime{3000};
  // How many steps have begun.
  [[nodiscard]] static uint64_t steps();

  // States that allocators report what they take from the driver; the driver's calls need not be
  // recorded.
  static void claim() { has_claim.store(true, std::memory_order_relaxed); }
  [[nodiscard]] static bool is_claimed() { return has_claim.load(std::memory_order_relaxed); }

  // Captures the calling thread's stack, as the options require; 0 while nothing is recorded. The
  // caller must hold no lock that a thread running Python code might wait for.
  [[nodiscard]] static StackId capture_stack();
  // As capture_stack(), for a caller that may hold any lock: captures the native stack if the GIL
  // is not available in time (PythonStacks::try_capture()), or the process runs no Python; 0 in its
  // threads that run no Python code.
  static constexpr std::chrono::milliseconds kGilTimeout{10};
  [[nodiscard]] static StackId try_capture_stack(std::chrono::milliseconds timeout = kGilTimeout);
  // Call it when Python is about to end, without the GIL: no thread waits for the GIL afterwards.
  static void python_ends();
  // Time and order are filled in; scope is the caller's (ScopeStack::current()). Whether it is a
  // record of the recording: written, or counted as lost.
  static bool emit(const Record& record) { return is_on() && put(record); }

  static void scope_begin(std::string_view name);
  static void scope_end();
  // A step of the program begins; they are counted from 0. Returns its number.
  static uint64_t step();
  // Until the recording stops, records have the time that was stated last (Unix time, not 0) and
  // not the clock's.
  static void state_time(int64_t time_ns);
  static void name(uint16_t device, uint64_t address, uint64_t size_bytes, std::string_view name,
                   std::string_view category);
  // A figure of a device that was read now; it holds until the next of that name.
  static void figure(uint16_t device, std::string_view name, uint64_t value);
  // Something that moved memory and ends now. It does not begin a lazy recording, since the memory
  // may be that of the host.
  static void mark(const Mark& mark);
  static void about(std::string_view key, std::string_view value) {
    record_fact({Fact::Kind::kAbout, std::string(key), std::string(value)});
  }
  // How the allocator was set up.
  static void setting(std::string_view key, std::string_view value) {
    record_fact({Fact::Kind::kSetting, std::string(key), std::string(value)});
  }

 private:
  static bool put(Record record);
  // The first record of a lazy recording, in this process or a child of it. Returns false if there
  // can be no flusher.
  [[gnu::cold]] static bool wake_flusher();
  [[gnu::cold]] static Record* wait_for_place(Ring& ring);
  [[gnu::cold]] static bool give_up();
  [[gnu::cold]] static void note_oom();
  [[gnu::cold]] static void flush_soon();
  static void record_fact(Fact fact);
  static void begin_child(bool is_whole);
  friend struct ForkHandlers;
  inline static std::atomic<bool> has_claim{false};
};

// Inline: the code between a tap and its ring takes lines of the processor's cache, too.
inline bool Recorder::put(Record record) {
  if (for_records.phase.load(std::memory_order_acquire) != Phase::kRunning && !wake_flusher())
    return give_up();
  const Rings::Turn turn;
  Ring* const ring = turn.ring();
  if (ring == nullptr) return give_up();
  Record* place = ring->claim();
  if (place == nullptr) place = wait_for_place(*ring);
  if (place == nullptr) return give_up();
  // The flusher makes time of the ticks.
  record.time_ns = for_records.stated_ns.load(std::memory_order_relaxed);
  record.is_time_stated = record.time_ns != 0;
  if (!record.is_time_stated) {
    const bool has_counter = for_records.has_tick_counter.load(std::memory_order_relaxed);
    record.time_ns = static_cast<int64_t>(tick_count(has_counter));
  }
  // From here on nothing can fail: each number is in one ring.
  const auto number = Traffic::numbers.add();
  if (!number) return false;  // the recording has ended meanwhile
  record.sequence = *number;
  *place = record;
  if (ring->publish()) flush_soon();
  if (record.op == Op::kOom) note_oom();
  return true;
}

}  // namespace vram::record
