// Progress: a line on standard error during long work, erased at the end. Silent for short work,
// and if standard error is no terminal. Use it from one thread at a time.
#pragma once

#include "cli/console.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace vram::cli {

class Progress {
 public:
  Progress(const Console& console, std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the line

  // Shows what is being done, if this many events take a while.
  void announce(uint64_t events);
  // Shows the current stage of the work and its completed share, from 0 to 1; immediately if the
  // work was announced or has taken a while.
  void update_stage(std::string_view stage, double share);
  // Bytes done, and how many there are (0: unknown). Cheap enough to call for every block read.
  void update(uint64_t done_bytes, uint64_t total_bytes);
  [[nodiscard]] std::function<void(uint64_t, uint64_t)> callback();
  // As above for counted items: "replays".
  void update_count(uint64_t done, uint64_t total, std::string_view things);

 private:
  using Clock = std::chrono::steady_clock;
  // Whether it is time to draw again.
  [[nodiscard]] bool is_due(Clock::time_point now);

  const Console& console_;
  std::string what_;
  Clock::time_point begin_;
  Clock::time_point next_draw_;
  bool drawn_ = false;
};

}  // namespace vram::cli
