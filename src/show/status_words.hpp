// Common texts of the live views: values with units, the place of a process, the problems of a
// device. Untrusted text is made printable: a process chooses its own command line. Pure functions.
#pragma once

#include "show/draw/line.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
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

}  // namespace vram::show
