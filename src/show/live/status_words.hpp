// Common texts of the live views: values with units, the place of a process, the problems of a
// device. Untrusted text is made printable: a process chooses its own command line. Pure functions.
#pragma once

#include "show/draw/line.hpp"
#include "show/draw/page.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// Smaller differences are not shown.
inline constexpr uint64_t kFewBytes = uint64_t{8} << 20;

inline constexpr std::string_view kUnknown = "-";

// "1,234", "1.5 GiB", "8.31 s", "87 %", "45 C", "312 W", "1200 MHz"; "-" where unknown.
[[nodiscard]] std::string count_text(const std::optional<uint64_t>& count);
[[nodiscard]] std::string duration_text(const std::optional<uint64_t>& duration_ns);
[[nodiscard]] std::string bytes_text(const std::optional<uint64_t>& bytes);
[[nodiscard]] std::string percent_text(const std::optional<uint32_t>& percent);
[[nodiscard]] std::string celsius_text(const std::optional<uint32_t>& celsius);
[[nodiscard]] std::string watts_text(const std::optional<uint32_t>& milliwatts);
[[nodiscard]] std::string mhz_text(const std::optional<uint32_t>& mhz);
// "-" where unknown or empty.
[[nodiscard]] std::string name_text(const std::optional<std::string>& text);

// Whether more than its pid is known of the process.
[[nodiscard]] bool is_visible(const watch::ProcessFacts& facts);
// "pod ml/trainer-0", "slurm 88123", "docker 0f3c9a7be1d2"; empty outside of these.
[[nodiscard]] std::string place_text(const watch::ProcessFacts& facts);

// The digits of its id that container tools print, printable.
[[nodiscard]] std::string short_id(const watch::Container& container);

// "79, once, at 2026-11-22 09:14:05 UTC".
[[nodiscard]] std::string xid_text(const watch::XidCount& fault);

struct Remark {
  std::string mark;  // what to put before it: colour is not the only carrier
  std::string text;
  Style style = Style::kPlain;
};

// Problems of a device, the worst first; empty without problems.
[[nodiscard]] std::vector<Remark> remarks(const watch::Device& device);

// An explanation of unattributed bytes; empty if they are few or unknown.
[[nodiscard]] std::string unattributed_text(const watch::Device& device);
// How much the processes' allocators could release, and on which devices; empty if little or
// unknown.
[[nodiscard]] std::string cleaning_text(const watch::Snapshot& snapshot);

// Common parts of a device in the live views, besides status_words. Pure functions.

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

// Common texts about a process in the live views, besides status_words. Untrusted text is made
// printable. Pure functions.

// The name, else the number; "-" if neither is known.
[[nodiscard]] std::string user_text(const watch::ProcessFacts& facts);
// As place_text(); "-" if unknown.
[[nodiscard]] std::string known_place_text(const watch::ProcessFacts& facts);
// Of MIG: "1/0", or the GPU instance alone.
[[nodiscard]] std::string instance_text(const gpu::DeviceProcess& process);
[[nodiscard]] std::string step_time_text(const watch::Process& process);
// Without the program's folder, which is least informative but comes first. For a hidden process,
// states that.
[[nodiscard]] std::string command_text(const watch::ProcessFacts& facts);

}  // namespace vram::show
