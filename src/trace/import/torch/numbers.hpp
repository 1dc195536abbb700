// Converts numbers of a file to the range in which they are used; anything but a number is 0.
#pragma once

#include "base/pod_vector.hpp"
#include "trace/import/pickle/value.hpp"

#include <cstdint>
#include <limits>

namespace vram::trace::torch {

class Numbers {
 public:
  // Those that do not fit a Value are kept here.
  [[nodiscard]] uint64_t keep(uint64_t bits) {
    kept_.push_back(bits);
    return kept_.size() - 1;
  }
  [[nodiscard]] uint64_t memory_bytes() const { return kept_.size() * sizeof(uint64_t); }

  // Of an integer of 64 bits or a float: its bits.
  [[nodiscard]] uint64_t bits(pickle::Value value) const {
    return value.kind() == pickle::Kind::kInt ? static_cast<uint64_t>(value.integer())
                                              : kept_[value.payload()];
  }
  [[nodiscard]] static bool is_integer(pickle::Value value) {
    return value.kind() == pickle::Kind::kInt || value.kind() == pickle::Kind::kWideInt ||
           value.kind() == pickle::Kind::kUnsigned;
  }
  // A 64-bit address that was written as a signed number is itself again.
  [[nodiscard]] uint64_t address(pickle::Value value) const {
    return is_integer(value) ? bits(value) : 0;
  }
  // Negative: 0.
  [[nodiscard]] uint64_t amount(pickle::Value value) const {
    const uint64_t number = address(value);
    const bool negative =
        value.kind() != pickle::Kind::kUnsigned && static_cast<int64_t>(number) < 0;
    return negative ? 0 : number;
  }
  [[nodiscard]] int64_t time_ns(pickle::Value microseconds) const {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 1000;
    const auto time_us = static_cast<int64_t>(amount(microseconds));
    return time_us >= 0 && time_us <= kMax ? time_us * 1000 : 0;
  }

 private:
  PodVector<uint64_t> kept_;
};

}  // namespace vram::trace::torch
