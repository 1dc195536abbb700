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

#include "alerts/rules/rule.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

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

// No window of a measure that counts is longer.
inline constexpr uint64_t kMaxWindowNs = 24 * kHourNs;

// Occurrences: how often a fault counter increased within a window. A counter may restart (after a
// driver reload) or be unknown for a time; neither counts. Pure: time is a parameter.
class Occurrences {
 public:
  struct Batch {
    uint64_t time_ns = 0;  // of the first in it
    uint64_t count = 0;
  };

  // `from`: the counter's value before its first reading; unknown: the value of that reading.
  // `batches`: earlier occurrences, by time.
  explicit Occurrences(std::optional<uint64_t> from) : last_(from) {}
  Occurrences(std::optional<uint64_t> from, std::deque<Batch> batches)
      : last_(from), batches_(std::move(batches)) {}

  // Time must not go back.
  void add(uint64_t now_ns, uint64_t count) {
    const uint64_t before = last_.value_or(count);
    last_ = count;
    while (!batches_.empty() && now_ns - batches_.front().time_ns > kMaxWindowNs)
      batches_.pop_front();
    if (count <= before) return;
    if (batches_.empty() || now_ns - batches_.back().time_ns > kBatchNs)
      batches_.push_back({now_ns, 0});
    batches_.back().count += count - before;
  }

  [[nodiscard]] uint64_t in_window(uint64_t now_ns, uint64_t window_ns) const {
    uint64_t sum = 0;
    for (const Batch& batch : batches_) {
      if (now_ns - batch.time_ns <= window_ns) sum += batch.count;
    }
    return sum;
  }

  [[nodiscard]] std::optional<uint64_t> last() const { return last_; }
  [[nodiscard]] const std::deque<Batch>& batches() const { return batches_; }

 private:
  static constexpr uint64_t kBatchNs = 10 * kSecondNs;  // a storm does not fill the memory
  std::optional<uint64_t> last_;
  std::deque<Batch> batches_;
};

}  // namespace vram::alerts
