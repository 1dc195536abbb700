// Occurrences: how often a fault counter increased within a window. A counter may restart (after a
// driver reload) or be unknown for a time; neither counts. Pure: time is a parameter.
#pragma once

#include "alerts/rules/rule.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace vram::alerts {

// No window of a measure that counts is longer.
inline constexpr uint64_t kMaxWindowNs = 24 * kHourNs;

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
