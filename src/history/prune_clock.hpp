// PruneClock: when what is old may go from a history, and how old it is.
//
// What is stored ages by the machine's clock. When that goes ahead by more than a day at once, over
// a restart or not, either the machine was off or the clock is wrong, and it is unknown which:
// what was stored before such a leap does not age by it. So a clock that is years ahead deletes
// nothing, and nothing stays for longer than it is to be kept while vram runs. A clock that is
// corrected takes its leap back.
//
// Pure: both clocks come in. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::history {

// What was stored until `after_s` is by `by_s` younger than its time says.
struct ClockLeap {
  int64_t after_s = 0;
  int64_t by_s = 0;

  bool operator==(const ClockLeap&) const = default;
};
using ClockLeaps = std::vector<ClockLeap>;  // in the order in which they came

class PruneClock {
 public:
  // `saved`: by an earlier process; "": nothing was. `newest_s`: of what is stored then.
  PruneClock(std::chrono::nanoseconds period, const std::string& saved,
             std::optional<int64_t> newest_s);

  // A sample's time by the machine's clock and by the monotonic one. The leap that came with it.
  std::optional<ClockLeap> see(int64_t wall_ns, int64_t steady_ns);
  // The time by the machine's clock, once for each time that it is due.
  [[nodiscard]] std::optional<int64_t> take();
  [[nodiscard]] const ClockLeaps& leaps() const { return leaps_; }
  // For a later process.
  [[nodiscard]] std::string save() const;

 private:
  [[nodiscard]] std::optional<ClockLeap> find_leap(int64_t by_ns);
  void take_back(int64_t by_s);

  int64_t period_ns_;
  std::optional<int64_t> wall_ns_;    // last seen, be it by an earlier process
  std::optional<int64_t> steady_ns_;  // the same, by this one
  int64_t due_ns_ = 0;
  ClockLeaps leaps_;
};

}  // namespace vram::history
