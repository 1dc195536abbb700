// What the views of a live machine show of a device in the same way, beside status_words. Pure
// functions.
#pragma once

#include "show/draw/line.hpp"
#include "show/draw/table.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vram::show {

// Used, of it unattributed, reserved, free, side by side; "-" where that is unknown.
[[nodiscard]] Line memory_bar(const gpu::DeviceMemory& memory,
                              const std::optional<int64_t>& unattributed, int columns);
[[nodiscard]] Line memory_bar_legend(int columns);
// "612 W", with its limit "612 W / 700 W".
[[nodiscard]] std::string power_text(const watch::Device& device, bool with_limit);

// A row for each MIG instance: nothing, its name, and what add_memory says of its memory, which the
// compute instances of one GPU instance share, so it is said once.
void add_instance_rows(
    const watch::Device& device,
    const std::function<void(const gpu::DeviceMemory&, std::vector<Line>&)>& add_memory,
    Table& table);

}  // namespace vram::show
