// Ranks: compares recordings of one program's processes: their peaks, aligned by step; the worst
// rank, and what it holds more of than the median rank. From their reports; a pure function.
//
// The median rank is an actual one (the lower of an even number), so every difference can be found
// in two reports. Each rank is represented by the main device of its report.
#pragma once

#include "explain/report.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::explain {

struct RankLine {
  uint64_t rank = 0;
  std::string host;  // "": unknown
  std::string path;
  uint32_t device = 0;
  uint64_t peak_requested_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  std::optional<uint64_t> headroom_bytes;  // the device's memory minus the reserved peak, if known
  uint64_t steps = 0;
  uint64_t ooms = 0;
};

// A value of the worst rank at its peak, and of the median rank at its own.
struct Difference {
  std::string name;
  uint64_t worst_bytes = 0;
  uint64_t median_bytes = 0;
  [[nodiscard]] uint64_t more_bytes() const { return worst_bytes - median_bytes; }
};

// A step that at least two ranks have, by name and, if a rank has several with that name, by order.
struct AlignedStep {
  std::string name;
  std::vector<std::optional<uint64_t>> peak_bytes;  // requested, by RankReport::ranks
  size_t worst = 0;                                 // index of the largest
};

enum class RankMeasure { kNone, kHeadroom, kReserved, kRequested };

struct RankReport {
  std::vector<RankLine> ranks;  // by rank
  std::optional<uint64_t> world_size;
  size_t worst = 0;  // indices into ranks
  size_t median = 0;
  RankMeasure worst_by =
      RankMeasure::kNone;  // the measure in which it is worst; kNone: no rank is worse
  // The largest difference to the median rank; nothing if there is none.
  std::optional<Difference> category;
  std::optional<Difference> site;
  std::optional<Difference> step;
  std::vector<AlignedStep> steps;
};

// Whether the reports are of one program's processes: each has another rank, and their world sizes
// are equal or their files' names differ only in digits; or, without ranks, the names differ only
// in digits, the times overlap, and events and peaks are within a factor of 2.
[[nodiscard]] bool is_one_program(const std::vector<Report>& reports);

// At least one report; those without a rank get the first free numbers.
[[nodiscard]] RankReport compare_ranks(const std::vector<Report>& reports);

}  // namespace vram::explain
