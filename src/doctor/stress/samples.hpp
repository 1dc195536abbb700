// Samples: measurements of one thing, and the Figure they make. One thread at a time. Keeps so many
// that medians are steady, and every one alike likely where there were more.
#pragma once

#include "doctor/stress/report.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace vram::doctor {

class Samples {
 public:
  void add(uint64_t value);
  [[nodiscard]] uint64_t count() const { return count_; }
  // Nothing was measured: a figure of count 0.
  [[nodiscard]] Figure figure(std::string name, uint64_t size_bytes, Unit unit) const;

 private:
  static constexpr size_t kMaxKept = 8192;

  std::vector<uint64_t> kept_;
  uint64_t count_ = 0;
  uint64_t low_ = 0;
  uint64_t high_ = 0;
  std::minstd_rand random_;
};

// Of a sum of bytes in a time; 0 for no time.
[[nodiscard]] uint64_t bytes_per_second(uint64_t bytes, int64_t duration_ns);
// part of whole, in millionths.
[[nodiscard]] Figure share_figure(std::string name, uint64_t part, uint64_t whole);

}  // namespace vram::doctor
