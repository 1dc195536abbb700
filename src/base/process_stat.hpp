// What /proc/<pid>/stat says of a process, from its text. The process chooses its own name, so the
// text is read from the name's last bracket on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace vram {

struct ProcessStat {
  std::string_view name;   // any bytes; points into the text
  bool has_ended = false;  // and its parent has not asked how
  uint32_t parent_pid = 0;
  uint64_t start_ticks = 0;  // since boot
};

// Nothing: not such a text, or one that ends before the start.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

}  // namespace vram
