// What the views of a live machine say in the same words: figures with their units, where a process
// runs, what ails a device. Text from outside comes out printable: a process chooses its own
// command line. Pure functions.
#pragma once

#include "show/draw/line.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

// Differences smaller than this are not worth a line.
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
// "2026-11-22 09:14:05 UTC"; "-" where nobody asked the clock.
[[nodiscard]] std::string clock_text(int64_t time_ns);

[[nodiscard]] std::string_view identifier(gpu::Vendor vendor);  // "nvidia", "amd", "intel"
// Whether more is known of the process than its number.
[[nodiscard]] bool is_visible(const watch::ProcessFacts& facts);
// "pod ml/trainer-0", "slurm 88123", "docker 0f3c9a7be1d2"; empty where it runs in none of them.
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

// What one has to know of a device beside its figures, the worst first; empty where all is well.
[[nodiscard]] std::vector<Remark> remarks(const watch::Device& device);

// What unattributed bytes mean; empty where they are few or unknown.
[[nodiscard]] std::string unattributed_text(const watch::Device& device);
// What the processes' allocators would give back, and on which devices; empty where that is little
// or unknown.
[[nodiscard]] std::string cleaning_text(const watch::Snapshot& snapshot);

}  // namespace vram::show
