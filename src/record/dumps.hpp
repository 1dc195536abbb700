// Dumps: requests to the flight recorder of this process for a file. Any thread may request and
// wait, also in a signal handler: both take no lock and allocate nothing. The flusher, which needs
// neither the GIL nor an allocator's lock, writes the files.
//
//     request() ──▶ pending ──▶ take() ──▶ FlightWindow::dump() ──▶ finish() ──▶ wait()
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::record {

// By importance.
enum class DumpReason : uint8_t {
  kCrash,
  kOom,
  kTerminated,
  kSignal,
  kRequest,
  kGrowth,         // a rule (file/flight_rules.hpp)
  kFragmentation,  // a rule
};
inline constexpr std::array<std::string_view, 7> kDumpReasons = {
    "crash", "oom", "sigterm", "signal", "request", "growth", "fragmentation"};

class Dumps {
 public:
  struct Taken {
    DumpReason reason = DumpReason::kRequest;  // the most important of those requested
    uint64_t ticket = 0;
  };

  // Returns a ticket for wait().
  uint64_t request(DumpReason reason) {
    const uint64_t bit = uint64_t{1} << static_cast<unsigned>(reason);
    uint64_t before = requested_.load(std::memory_order_relaxed);
    while (!requested_.compare_exchange_weak(before, (before | bit) + kOneTicket,
                                             std::memory_order_acq_rel, std::memory_order_relaxed))
      continue;
    return before / kOneTicket + 1;
  }
  // Returns whether the request was handled in time; a failed dump counts as handled.
  [[nodiscard]] bool wait(uint64_t ticket, std::chrono::milliseconds timeout) const;
  [[nodiscard]] std::optional<Taken> take();
  void finish(uint64_t ticket) { finished_.store(ticket, std::memory_order_release); }
  // No flusher is there to handle what is pending.
  void drop_all() { finish(requested_.fetch_and(~kReasons) / kOneTicket); }

 private:
  static constexpr uint64_t kOneTicket = uint64_t{1} << kDumpReasons.size();
  static constexpr uint64_t kReasons = kOneTicket - 1;
  // The tickets, and a bit for each reason: one word, so that none is taken without the other.
  std::atomic<uint64_t> requested_{0};
  std::atomic<uint64_t> finished_{0};
};

[[nodiscard]] Dumps& dumps();

// Handles signals for a flight recorder: a dump before a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
// SIGABRT) or SIGTERM takes effect, and at a signal of the program's choice. The program's own
// action follows; of SIGTERM, also one that it installs later (keep_installed()). Installed once
// for the process; while no flight recorder runs, and in a forked child, the program's own action
// is all that happens. The default action of the chosen signal, which ends most programs, is taken
// only after the flight recorder has stopped.
class DumpSignals {
 public:
  static constexpr std::chrono::milliseconds kMaxWait{3000};

  // Whether a program can have a handler for it.
  [[nodiscard]] static bool can_handle(int signal);
  // on_request: 0: none.
  static void install(int on_request);
  static void set_enabled(bool is_enabled);
  // The flight recorder stops, and will start again: until then the chosen signal has no effect.
  static void rest();
  // The program may have replaced the handler of SIGTERM: puts it back, before the program's. Call
  // it from time to time.
  static void keep_installed();
  // The flusher says who it is: it must not wait for itself.
  static void note_flusher();
};

}  // namespace vram::record
