// Trend: whether memory grows without end, and how fast. Keeps the minimum of each sixtieth of the
// window, since training rises and falls within seconds and only its floor reveals a leak.
//
//     add(time, bytes) ──▶ floors ──▶ slope: the median of all pairs' slopes (Theil and Sen)
//                                 └──▶ limit: where growth that slows down comes to its end
//
// Growth is reported only if all of these hold: half of the window has passed; the last third grows
// as well (loading a model does not); no fall takes back a quarter of the growth; and the level is
// new (a level that was reached within the last four windows is a sawtooth). The first tooth of a
// sawtooth longer than half of the window cannot be distinguished from a leak. A cache
// fills more and more slowly: growth that keeps slowing down as it did from the first third of the
// window to its last ends at a limit. Pure and deterministic: time is a parameter.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace vram::alerts {

class Trend {
 public:
  struct Floor {
    uint64_t part = 0;  // of time: its number
    uint64_t bytes = 0;
  };
  // All that it has seen.
  struct Seen {
    std::optional<Floor> open;  // the part that has not ended
    std::deque<Floor> floors;   // of the window, by time
    std::deque<Floor> earlier;  // before it: each higher than all that came after it
  };

  // Growth below at_least_bytes does not count. `seen`: from a trend with the same window.
  Trend(uint64_t window_ns, uint64_t at_least_bytes);
  Trend(uint64_t window_ns, uint64_t at_least_bytes, Seen seen);
  // Whether it could be a trend's: parts one after the other.
  [[nodiscard]] static bool is_possible(const Seen& seen);

  // Time must not go back.
  void add(uint64_t time_ns, uint64_t bytes);

  // Bytes a second; 0: not without end. Unknown: too little has been seen.
  [[nodiscard]] std::optional<double> growth_per_second() const { return growth_; }
  // So much is to come at most; infinite where growth does not slow down.
  [[nodiscard]] double limit_bytes() const { return limit_bytes_; }
  [[nodiscard]] const Seen& seen() const { return seen_; }

 private:
  void close();
  void forget(uint64_t part);
  void judge();
  [[nodiscard]] std::optional<double> growth_a_part() const;
  [[nodiscard]] double find_limit_bytes() const;
  [[nodiscard]] bool comes_back(double growth_bytes) const;

  uint64_t part_ns_;
  uint64_t at_least_bytes_;
  Seen seen_;
  std::optional<double> growth_;
  double limit_bytes_ = 0;
};

}  // namespace vram::alerts
