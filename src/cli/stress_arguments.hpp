// StressArguments: the words of `vram doctor --stress`, understood and checked before anything is
// opened.
#pragma once

#include "base/result.hpp"
#include "cli/stress_run.hpp"
#include "doctor/stress/report.hpp"

#include <cstdint>
#include <optional>

namespace vram::cli {

struct StressArguments {
  int64_t length_ns = 0;
  std::optional<uint32_t> device;
  std::optional<uint64_t> simulated_bytes;
  std::optional<uint64_t> leave_bytes;
  uint64_t seed = 0;
  double limit = 0;
  std::optional<doctor::StressReport> before;
};

// Reads the report to compare with, too. kBadInput: the error names the option.
[[nodiscard]] Result<StressArguments> parse_stress_arguments(const StressRequest& request);

}  // namespace vram::cli
