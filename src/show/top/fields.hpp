// The fields of a process in vram top: what stands in the columns, by what rows are sorted, and
// what may be hidden. One table for all of it. Pure functions.
#pragma once

#include "show/draw/line.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vram::show::top {

enum class Field : uint8_t {
  kPid,
  kUser,
  kGpu,
  kMig,
  kType,
  kMemory,
  kHostMemory,
  kBusy,
  kAllocated,
  kReserved,
  kCached,
  kPeak,
  kBeyond,
  kSplit,
  kStepTime,
  kPlace,
  kScope,
  kCommand,
};

struct FieldInfo {
  Field field;
  std::string_view name;   // as options and menus call it
  std::string_view title;  // of the column
  std::string_view about;
  int columns;     // of a cell
  bool is_figure;  // right, the largest first
  int rank;        // those of a high rank go first where there is no room
  bool is_always;  // also where no process has anything to say in it
  Style style;
  std::string (*text)(const watch::Process&, const watch::Use&);
};

// In the order of the columns.
[[nodiscard]] std::span<const FieldInfo> all_fields();
[[nodiscard]] const FieldInfo& info_of(Field field);
// By its name.
[[nodiscard]] std::optional<Field> field_named(std::string_view name);

// Of fields that are figures; what is unknown is nothing.
[[nodiscard]] std::optional<uint64_t> figure_of(Field field, const watch::Process& process,
                                                const watch::Use& use);
// Allocated, cached, and what lies beyond the allocator, as a bar of the device's whole memory.
[[nodiscard]] Line split_bar(const watch::Use& use, std::optional<uint64_t> whole_bytes,
                             int columns);

}  // namespace vram::show::top
