// Trend: whether memory grows without end, and how fast. Keeps the smallest value of each of the
// window's sixty parts, since training goes up and down within seconds and only its floor tells of
// a leak.
//
//     add(time, bytes) ──▶ floors ──▶ slope: the median of all pairs' slopes (Theil and Sen)
//                                 └──▶ limit: where growth that slows down comes to its end
//
// Growth is without end only if nothing speaks against it: half of the window has been seen, its
// last third grows as well (a model that was loaded does not), no fall takes back a quarter of the
// growth, and the level is new: memory that was as high within the four windows before is a saw.
// The first tooth of a saw longer than half of the window can't be told from a leak. A cache fills
// ever more slowly: if growth goes on slowing down as it did from the window's first third to its
// last, it ends at a limit.
// Pure and deterministic: time comes in.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace vram::watch {

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

  // Growth by less than at_least_bytes is none. `seen`: by a trend of the same window.
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

}  // namespace vram::watch
