// Recorder: the one recording of this process. Whoever sees something happen says so with emit(),
// which puts a record into its thread's ring; the flusher, a thread of its own, puts the records of
// all threads in order and writes them (file/recording.hpp).
//
//     tap ──▶ emit ──▶ ring of the thread ─┐
//     tap ──▶ emit ──▶ ring of the thread ─┴─▶ flusher ──▶ Recording ──▶ run.vtrace
//
// emit() may be called from any thread, also while nothing is recorded (it then costs one load); it
// takes no lock and allocates nothing once the thread has its ring. A thread whose ring is full
// waits for the flusher for a while (traffic.hpp), then gives the record up, which is counted: each
// record of a recording is in the file or counted as lost. An allocation must be said after it was
// granted and a free before it is done, so that no other record about the address can come between.
//
// A fork finds no map half changed: it waits for the short sections that other threads are in. The
// child of a lazy recording records into a file of its own, that of another one records nothing.
#pragma once

#include "base/output_target.hpp"
#include "base/result.hpp"
#include "record/fact.hpp"
#include "record/record.hpp"
#include "record/stores.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::record {

enum class Stacks : uint8_t { kNone, kPython, kNative };

struct RecorderOptions {
  std::string path;
  Stacks stacks = Stacks::kNone;
  uint64_t limit_bytes = 0;  // what may stay on the disk; 0: no limit
  // The file is made at the first record, and named after the process where another file has the
  // name: for programs of which nobody knows which processes use a GPU. It replaces nothing.
  bool is_lazy = false;
  // Of one that is not lazy: it replaces what is there even if that is no recording.
  Replace replace = Replace::kOwn;
  std::vector<Fact> facts = {};
};

struct RecorderCounts {
  uint64_t events = 0;  // in the file: a record may make several, or none
  uint64_t written_records = 0;
  uint64_t lost_records = 0;
  uint64_t file_bytes = 0;
};

class Recorder {
 public:
  // kBadInput: one is running already, or the file may not be written, as find_output_target()
  // says. kIo: the file can't be made, or there is no thread to be had for it.
  [[nodiscard]] static Result<> start(const RecorderOptions& options);
  // All that was said is in the file, which is whole. What went wrong since the start comes back
  // here; kIo: also that the disk has taken nothing for Flusher::kMaxStall, and was given up.
  [[nodiscard]] static Result<> stop();
  // Something is recorded: not any more once a recording has failed, as on a full disk.
  [[nodiscard]] static bool is_on() { return has_recording.load(std::memory_order_relaxed); }
  // The recording has failed: what happens from now on is no part of it. Any thread.
  static void switch_off() { has_recording.store(false, std::memory_order_relaxed); }
  // From start() to stop(), whether it has failed meanwhile or not.
  [[nodiscard]] static bool is_started();
  [[nodiscard]] static RecorderCounts counts();
  // The file that is written, once it is known: as much of its path as fits, with a 0 behind it.
  // Answers how long it is.
  static size_t copy_path(std::span<char> room);

  // Somebody says what is taken from the driver: its own calls need not be recorded.
  static void claim() { has_claim.store(true, std::memory_order_relaxed); }
  [[nodiscard]] static bool is_claimed() { return has_claim.load(std::memory_order_relaxed); }

  // The stack of the calling thread, as the options want it; 0 while nothing is recorded. The
  // caller may hold no lock that a thread which runs Python code might wait for.
  [[nodiscard]] static StackId capture_stack();
  // The same where the caller may hold any lock: the native stack if Python's can't be had soon.
  [[nodiscard]] static StackId try_capture_stack();
  // Python is about to end, and the caller does not hold the GIL: no thread waits for it any more.
  static void python_ends();
  // Time and order are filled in; scope is the caller's (ScopeStack::current()). Whether it is a
  // record of the recording: written, or counted as lost.
  static bool emit(Record record) { return is_on() && put(record); }

  static void scope_begin(std::string_view name);
  static void scope_end();
  // A step of the program begins; they are counted from 0.
  static void step();
  static void name(uint16_t device, uint64_t address, uint64_t size_bytes, std::string_view name,
                   std::string_view category);
  static void about(std::string_view key, std::string_view value) {
    record_fact({Fact::Kind::kAbout, std::string(key), std::string(value)});
  }
  // How the allocator was set up.
  static void setting(std::string_view key, std::string_view value) {
    record_fact({Fact::Kind::kSetting, std::string(key), std::string(value)});
  }

 private:
  static bool put(Record& record);
  static void record_fact(Fact fact);
  static void begin_child(bool is_whole);
  friend struct ForkHandlers;
  inline static std::atomic<bool> has_recording{false};
  inline static std::atomic<bool> has_claim{false};
};

}  // namespace vram::record
