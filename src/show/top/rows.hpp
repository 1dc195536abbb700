// The rows of vram top's list: processes on their devices, filtered, sorted, flat or as a tree.
// Pure functions.
//
// The order depends only on the values: rows with equal keys are sorted by pid, device and
// instance, so that none jumps. In the tree, siblings are sorted so, and a parent has the place of
// the best row of its family.
#pragma once

#include "show/top/fields.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vram::show::top {

// Identifies a process, even after its pid is reused; a hidden process has no start.
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
  std::string branch;      // the tree's lines before the command
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

// Arranges sorted rows below their parents. Whatever the kernel reports, every row appears once: a
// parent counts only if it started no later than its child (else the pid was reused), and of a
// cycle, one process is the root. Several children of a parent without a GPU, such as a launcher of
// ranks, get a row for it. Pure functions.

// The rows of a process stay together; a family has the place of its first row.
[[nodiscard]] std::vector<Row> as_tree(std::vector<Row> sorted, const std::set<uint32_t>& folded);

}  // namespace vram::show::top
