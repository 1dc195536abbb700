// compare(): two reports of one device: what became slower or worse, by how much, and whether that
// is more than the samples of both scatter by themselves. A pure function.
#pragma once

#include "base/result.hpp"
#include "doctor/stress/report.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::doctor {

enum class Trend : uint8_t { kSame, kBetter, kWorse, kFailing };

struct Change {
  std::string name;
  uint64_t size_bytes = 0;
  Unit unit = Unit::kNanoseconds;
  uint64_t before = 0;  // medians
  uint64_t after = 0;
  double worse = 0;  // by which part of what it was: longer, or slower; below 0: better
  double noise = 0;  // what the halves in the middle of both reports' samples span, together
  Trend trend = Trend::kSame;
};

struct Comparison {
  int64_t before_time_ns = 0;
  double limit = 0;
  std::vector<Change> changes{};            // the worst first
  std::vector<std::string> not_measured{};  // in the report of now, though they were before
  [[nodiscard]] bool is_failing() const;
};

// Changes within the noise are none; those that are worse by more than the limit are failing.
// kBadInput: the reports are not of the same device.
[[nodiscard]] Result<Comparison> compare(const StressReport& before, const StressReport& after,
                                         double limit);

}  // namespace vram::doctor
