// What vram top keeps from one run to the next: how it shows things, as the user left it. What is
// asked of one machine at one moment (the filter, a device alone, tags) is no setting.
//
//     top.toml ──▶ settings_of_toml ──┐
//     options ────────────────────────┴─▶ put_over ─▶ apply ─▶ TopState ─▶ changes ─▶ top.toml
//
// Pure functions; files are others' business.
#pragma once

#include "base/result.hpp"
#include "show/top/state.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace vram::show::top {

// Each as far as somebody said so.
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
// What `above` says, and where it says nothing what `below` does.
[[nodiscard]] Settings put_over(const Settings& below, const Settings& above);
// Of `after` what is not as in `before`; what is sorted by and which way round belong together.
[[nodiscard]] Settings changes(const Settings& before, const Settings& after);

// A file that says the same; nothing but ASCII.
[[nodiscard]] std::string to_toml(const Settings& settings);
// Judged whole: with anything in it that is no setting there are none. `name` begins errors.
[[nodiscard]] Result<Settings> settings_of_toml(std::string_view text, const std::string& name);

}  // namespace vram::show::top
