// Parses /proc/<pid>/stat. A process chooses its own name, so parsing starts at the last bracket
// after the name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace vram {

struct ProcessStat {
  std::string_view name;  // any bytes; points into the text
  uint32_t parent_pid = 0;
  uint64_t start_ticks = 0;  // since boot
  // A zombie: the parent has not read its exit code.
  bool has_ended = false;
};

// Nothing: not such a text, or one that ends before the start.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

}  // namespace vram
