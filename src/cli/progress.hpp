// Progress: one line on standard error while something takes long, gone when it is over. Silent for
// what is quick and where standard error is no terminal. One thread at a time.
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

  // Says what is going on where no bytes can be counted, if so many events take a while.
  void announce(uint64_t events);
  // The stage of the work that begins, and the share that is done: 0 to 1. Shown at once where the
  // work was announced or has taken a while.
  void update_stage(std::string_view stage, double share);
  // Bytes done, and how many there are (0: unknown). Cheap enough to call for every block read.
  void update(uint64_t done_bytes, uint64_t total_bytes);
  [[nodiscard]] std::function<void(uint64_t, uint64_t)> callback();
  // The same for things that are counted: "replays".
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
