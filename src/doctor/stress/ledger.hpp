// Ledger: the bad words that several threads find. Any thread; a lock is taken for bad words alone.
#pragma once

#include "doctor/stress/report.hpp"

#include <bit>
#include <cstdint>
#include <mutex>
#include <utility>

namespace vram::doctor {

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

}  // namespace vram::doctor
