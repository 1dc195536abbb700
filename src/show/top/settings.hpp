// Settings that vram top keeps between runs: how it shows things. Choices for one machine and
// moment (the filter, a single device, tags) are not kept.
//
//     top.toml ──▶ settings_of_toml ──┐
//     options ────────────────────────┴─▶ put_over ─▶ apply ─▶ TopState ─▶ changes ─▶ top.toml
//
// Pure functions without file access.
#pragma once

#include "base/result.hpp"
#include "show/top/state.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace vram::show::top {

// Each setting, if given.
struct Settings {
  std::optional<Field> sort;
  std::optional<bool> is_inverted;
  std::optional<bool> is_tree;
  std::optional<bool> shows_allocators;
  std::optional<PlotKind> plot;
  std::optional<uint64_t> period_ns;
  std::optional<std::set<Field>> hidden;
  bool operator==(const Settings&) const = default;
};

// From 0.1 s to an hour.
[[nodiscard]] bool is_period(int64_t period_ns);

[[nodiscard]] Settings settings_of(const TopState& state);
void apply(const Settings& settings, TopState& state);
// The settings of `above`, and those of `below` that `above` lacks.
[[nodiscard]] Settings put_over(const Settings& below, const Settings& above);
// What differs in `after` from `before`; the sort key and its direction belong together.
[[nodiscard]] Settings changes(const Settings& before, const Settings& after);

// The settings as a file; only ASCII.
[[nodiscard]] std::string to_toml(const Settings& settings);
// Parsed completely: with any invalid setting, returns an error. `name` begins errors.
[[nodiscard]] Result<Settings> settings_of_toml(std::string_view text, const std::string& name);

}  // namespace vram::show::top
