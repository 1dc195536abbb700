// The rows of vram top's list: processes on their devices, filtered, sorted, flat or as a tree of
// parents and children. Pure functions.
//
// The order depends on the figures alone: rows with equal keys stand by pid, device and instance,
// so that none jumps. In the tree brothers are sorted so, and whoever has children stands where the
// best of the family would.
#pragma once

#include "show/top/fields.hpp"
#include "show/top/filter.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vram::show::top {

// A process and no later one with its number; without a start it is not to be seen from here.
struct ProcessId {
  uint32_t pid = 0;
  std::optional<uint64_t> start_ticks;
  bool operator==(const ProcessId&) const = default;
};

struct RowId {
  ProcessId process;
  uint32_t device = 0;
  std::optional<uint32_t> gpu_instance;
  std::optional<uint32_t> compute_instance;
  bool operator==(const RowId&) const = default;
};

struct Row {
  const watch::Process* process = nullptr;  // none: a parent of several that uses no GPU itself
  const watch::Use* use = nullptr;
  uint32_t pid = 0;
  std::string branch;      // of the tree, what stands before the command
  size_t descendants = 0;  // processes below it
  bool is_folded = false;  // and they are not shown

  [[nodiscard]] RowId id() const;
};

struct RowOrder {
  Field sort = Field::kMemory;
  bool is_inverted = false;  // figures: the smallest first
  bool is_tree = false;
  std::set<uint32_t> folded = {};  // by pid
};

// Valid as long as the snapshot.
[[nodiscard]] std::vector<Row> rows_of(const watch::Snapshot& snapshot, const Filter& filter,
                                       std::optional<uint32_t> device, const RowOrder& order);

}  // namespace vram::show::top
