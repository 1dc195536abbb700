// Progress: one line on standard error while something takes long, gone when it is over. Silent for
// what is quick and where standard error is no terminal. One thread at a time.
#pragma once

#include "cli/console.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace vram::cli {

class Progress {
 public:
  Progress(const Console& console, std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the line

  // Says what is going on where no bytes can be counted, if so many events take a while.
  void announce(uint64_t events);
  // Bytes done, and how many there are (0: unknown). Cheap enough to call for every block read.
  void update(uint64_t done_bytes, uint64_t total_bytes);
  [[nodiscard]] std::function<void(uint64_t, uint64_t)> callback();

 private:
  using Clock = std::chrono::steady_clock;

  const Console& console_;
  std::string what_;
  Clock::time_point begin_;
  Clock::time_point next_draw_;
  bool drawn_ = false;
};

}  // namespace vram::cli
