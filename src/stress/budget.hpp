// Budget: how long a phase may take, and whether the user wants it all to end. Any thread; the
// clock must take as many.
#pragma once

#include "stress/report.hpp"

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace vram::stress {

// Called now and then with the progress: the phase, how much of its time is over, and how long it
// has. One thread at a time.
using Progress = std::function<void(const char* phase, int64_t done_ns, int64_t total_ns)>;

class Budget {
 public:
  // stop may be null.
  Budget(const char* phase, const std::function<int64_t()>& now_ns, const std::atomic<bool>* stop,
         int64_t length_ns)
      : phase_(phase), now_ns_(now_ns), stop_(stop), begin_ns_(now_ns()), length_ns_(length_ns) {}

  [[nodiscard]] int64_t now_ns() const { return now_ns_(); }
  [[nodiscard]] bool is_stopped() const {
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_over() const { return is_over_after(1.0); }
  // Whether so much of it has passed; or all is to end.
  [[nodiscard]] bool is_over_after(double share) const {
    return is_stopped() ||
           static_cast<double>(now_ns() - begin_ns_) >= share * static_cast<double>(length_ns_);
  }
  void report_progress(const Progress& progress) const {
    if (progress) progress(phase_, now_ns() - begin_ns_, length_ns_);
  }

 private:
  const char* phase_;
  const std::function<int64_t()>& now_ns_;
  const std::atomic<bool>* stop_;
  int64_t begin_ns_;
  int64_t length_ns_;
};

// Ledger: the bad words that several threads find. Any thread; a lock is taken for bad words alone.
class Ledger {
 public:
  void add(BadWord word) {
    const std::lock_guard guard(mutex_);
    ++bad_.count;
    for (uint64_t bits = word.bits(); bits != 0; bits &= bits - 1)
      ++bad_.by_bit[static_cast<size_t>(std::countr_zero(bits))];
    if (bad_.first.size() < kMaxListed) bad_.first.push_back(std::move(word));
  }
  [[nodiscard]] uint64_t count() const {
    const std::lock_guard guard(mutex_);
    return bad_.count;
  }
  [[nodiscard]] BadWords take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(bad_, {});
  }

 private:
  static constexpr size_t kMaxListed = 1000;

  mutable std::mutex mutex_;
  BadWords bad_;
};

}  // namespace vram::stress
