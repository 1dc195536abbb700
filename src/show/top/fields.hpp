// The fields of a process in vram top: columns, sort keys, and what can be hidden. One table for
// all of them. Pure functions.
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
  int rank;        // fields of a high rank are left out first
  bool is_always;  // also if no process has a value
  Style style;
  std::string (*text)(const watch::Process&, const watch::Use&);
};

// In the order of the columns.
[[nodiscard]] std::span<const FieldInfo> all_fields();
[[nodiscard]] const FieldInfo& info_of(Field field);
// By its name.
[[nodiscard]] std::optional<Field> field_named(std::string_view name);

// The value of a numeric field; nothing if unknown.
[[nodiscard]] std::optional<uint64_t> figure_of(Field field, const watch::Process& process,
                                                const watch::Use& use);
// Allocated, cached, and memory outside the allocator, as a bar of the device's memory.
[[nodiscard]] Line split_bar(const watch::Use& use, std::optional<uint64_t> whole_bytes,
                             int columns);

}  // namespace vram::show::top
