// WorkOrder: what streams and events promise about the order of queued work, and nothing more. Work
// in one stream runs in order; work of a stream that waits for an event runs after what the event
// stands for; what is queued after the host has seen an event happen runs after that. All else may
// run in any order, which the caller chooses step by step.
//
// Happens-before by vector clocks (Mattern, 1989): each stream counts its work, and a clock says
// for each stream how much of its work is ordered before. The host is one thread, with a clock of
// what it knows to be done. Not thread-safe; one device.
#pragma once

#include "gpu/memory.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::gpu {

// A part of memory that work reads or writes. What a write leaves there is named by its tag; a read
// expects to find that.
struct Access {
  Address address = 0;
  uint64_t bytes = 0;
  uint64_t tag = 0;
  bool is_write = true;
};

class WorkOrder {
 public:
  // Streams that live at a time, with those that ended before the host knew their work done.
  static constexpr uint32_t kMaxStreams = 32;
  using Clock = std::array<uint64_t, kMaxStreams>;
  using Flag = uint64_t;  // 0: none

  struct Work {
    StreamHandle stream = 0;
    uint32_t slot = 0;    // the stream's place in the clocks
    uint64_t number = 0;  // in its slot, from 1 on
    Clock clock{};        // what is ordered before it, and itself
    std::vector<Access> accesses;
    Flag waits_for = 0;  // runs only once that flag is set
    Flag sets = 0;
  };

  // The stream is known from its first use.
  [[nodiscard]] const Work& enqueue(StreamHandle stream, std::vector<Access> accesses,
                                    Flag waits_for = 0, Flag sets = 0);
  // The stream's handle names nothing any more; its work still runs. begin: it names a new stream.
  void end(StreamHandle stream);
  void begin(StreamHandle stream) { std::erase(ended_, stream); }
  [[nodiscard]] bool has_ended(StreamHandle stream) const;

  // The stream is captured into a graph: what is queued in it meanwhile runs only when that has
  // ended, as if the graph were launched then.
  void begin_capture(StreamHandle stream);
  void end_capture(StreamHandle stream);
  [[nodiscard]] bool is_captured(StreamHandle stream) const;
  [[nodiscard]] bool is_any_captured() const;

  // How many more streams may begin now.
  [[nodiscard]] uint32_t spare_streams() const;

  void record(StreamHandle stream, EventHandle event);
  void wait(StreamHandle stream, EventHandle event);
  // Whether it has happened; if so, the host knows.
  [[nodiscard]] bool query(EventHandle event);
  void destroy(EventHandle event) { events_.erase(event); }

  // Runs one piece of work that may run now, chosen by that number; false where none may.
  bool step(uint64_t choice);
  // Runs all but what is captured; false where some waits for what never comes. That is dropped.
  [[nodiscard]] bool finish();
  // The host knows of all work that is done.
  void observe_all();

  // Whether the host knows that all of it is done.
  [[nodiscard]] bool is_known_done(const Clock& clock) const { return covers(host_, clock); }
  // Called for each piece of work when it runs.
  void on_run(std::function<void(const Work&)> run) { run_ = std::move(run); }

 private:
  static constexpr uint64_t kNoCapture = std::numeric_limits<uint64_t>::max();
  struct Stream {
    bool is_used = false;
    bool has_ended = false;
    StreamHandle handle = 0;
    Clock clock{};
    uint64_t last_number = 0;  // queued
    uint64_t done = 0;
    uint64_t last_uncaptured = kNoCapture;  // queued before the current capture
    std::deque<Work> queue;
  };
  [[nodiscard]] static bool covers(const Clock& later, const Clock& earlier);
  static void join(Clock& clock, const Clock& other);
  [[nodiscard]] bool is_spare(uint32_t slot) const;
  [[nodiscard]] uint32_t slot_of(StreamHandle stream);
  [[nodiscard]] bool has_happened(const Clock& clock) const;
  [[nodiscard]] bool can_run(const Work& work) const;
  void run_next(uint32_t slot);

  std::array<Stream, kMaxStreams> streams_;
  std::vector<StreamHandle> ended_;
  std::unordered_map<EventHandle, Clock> events_;
  std::vector<Flag> set_flags_;
  Clock host_{};
  std::function<void(const Work&)> run_;
};

}  // namespace vram::gpu
