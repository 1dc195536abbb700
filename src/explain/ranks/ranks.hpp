// Ranks: recordings of one program's processes, read together: their peaks side by side, lined up
// by step; which one is worst, and what it holds more of than the median one. From their reports; a
// pure function.
//
// The median rank is a real one (of an even number the lower), so every difference can be looked up
// in two reports. Each rank is told by the device that its report leads with.
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
  std::string host;  // "": not known
  std::string path;
  uint32_t device = 0;
  uint64_t peak_requested_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  std::optional<uint64_t> headroom_bytes;  // of the device beside the reserved peak, where known
  uint64_t steps = 0;
  uint64_t ooms = 0;
};

// What the worst rank has of something at its peak, and the median rank at its own.
struct Difference {
  std::string name;
  uint64_t worst_bytes = 0;
  uint64_t median_bytes = 0;
  [[nodiscard]] uint64_t more_bytes() const { return worst_bytes - median_bytes; }
};

// A step that at least two ranks have, by its name and, where a rank has several of that name, by
// their order.
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
  RankMeasure worst_by = RankMeasure::kNone;  // in what it is worst; kNone: all are alike
  // Where the worst rank exceeds the median one most; none where it does not.
  std::optional<Difference> category;
  std::optional<Difference> site;
  std::optional<Difference> step;
  std::vector<AlignedStep> steps;
};

// Whether the reports are of one program's processes: each says another rank, and they say the same
// world size or their files' names differ in digits alone; or, where they say no ranks, the names
// differ in digits alone, the times overlap, and events and peaks are within a factor of 2.
[[nodiscard]] bool is_one_program(const std::vector<Report>& reports);

// At least one report; those that don't say their rank get the first numbers that are free.
[[nodiscard]] RankReport compare_ranks(const std::vector<Report>& reports);

}  // namespace vram::explain
