// Common parts of a device in the live views, besides status_words. Pure functions.
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

// A bar of used (with its unattributed part), reserved and free memory; "-" if unknown.
[[nodiscard]] Line memory_bar(const gpu::DeviceMemory& memory,
                              const std::optional<int64_t>& unattributed, int columns);
[[nodiscard]] Line memory_bar_legend(int columns);
// "612 W", with its limit "612 W / 700 W".
[[nodiscard]] std::string power_text(const watch::Device& device, bool with_limit);

// Adds a row for each MIG instance: an empty cell, its name, and the memory cells from add_memory,
// once for the compute instances of a GPU instance, which share its memory.
void add_instance_rows(
    const watch::Device& device,
    const std::function<void(const gpu::DeviceMemory&, std::vector<Line>&)>& add_memory,
    Table& table);

}  // namespace vram::show
