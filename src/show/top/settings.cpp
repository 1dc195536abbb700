#include "show/top/settings.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

namespace vram::show::top {
namespace {

using Given = TomlValue;

constexpr uint64_t kMillisecondNs = 1'000'000;
constexpr std::array<std::string_view, 3> kPlots = {"memory", "power", "none"};  // by PlotKind
constexpr int kShownColumns = 40;

// All of them, to do the same with each.
template <typename AnySettings>
auto members(AnySettings& settings) {
  return std::tie(settings.sort, settings.is_inverted, settings.is_tree, settings.shows_allocators,
                  settings.plot, settings.period_ns, settings.hidden);
}

template <typename Action>
void for_each_member(Settings& target, const Settings& source, const Action& action) {
  std::apply(
      [&](auto&... mine) {
        std::apply([&](const auto&... other) { (action(mine, other), ...); }, members(source));
      },
      members(target));
}

// A setting in a file. What can't be taken leaves the settings alone and answers false.
struct Entry {
  std::string_view key;
  std::string_view wanted;
  bool (*take)(const Given& given, Settings& settings);
  std::string (*text)(const Settings& settings);  // empty: not set
};

template <std::optional<bool> Settings::* kMember>
constexpr Entry flag(std::string_view key) {
  return {key, tr_later("true or false"),
          [](const Given& given, Settings& settings) {
            settings.*kMember = given.flag;
            return given.flag.has_value();
          },
          [](const Settings& settings) {
            const auto& value = settings.*kMember;
            return value ? std::string(*value ? "true" : "false") : "";
          }};
}

bool take_sort(const Given& given, Settings& settings) {
  settings.sort = given.text ? field_named(*given.text) : std::nullopt;
  return settings.sort.has_value();
}

bool take_plot(const Given& given, Settings& settings) {
  const auto* const found =
      given.text ? std::ranges::find(kPlots, std::string_view(*given.text)) : kPlots.end();
  if (found == kPlots.end()) return false;
  settings.plot = static_cast<PlotKind>(found - kPlots.begin());
  return true;
}

bool take_period(const Given& given, Settings& settings) {
  const auto period = parse_duration_ns(given.text.value_or(""));
  if (!period || !is_period(*period)) return false;
  settings.period_ns = static_cast<uint64_t>(*period);
  return true;
}

bool take_hidden(const Given& given, Settings& settings) {
  if (!given.list) return false;
  std::set<Field> hidden;
  for (const Given& item : *given.list) {
    const auto field = item.text ? field_named(*item.text) : std::nullopt;
    if (!field) return false;
    hidden.insert(*field);
  }
  settings.hidden = std::move(hidden);
  return true;
}

std::string hidden_text(const Settings& settings) {
  if (!settings.hidden) return "";
  std::vector<std::string> names;
  for (const Field field : *settings.hidden) names.push_back(toml_string(info_of(field).name));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

constexpr std::string_view kColumn = tr_later("the name of a column, as --sort takes it");
constexpr std::string_view kColumns = tr_later("a list of names of columns, as --sort takes them");

constexpr std::array kEntries = {
    Entry{"sort", kColumn, take_sort,
          [](const Settings& settings) {
            return settings.sort ? toml_string(info_of(*settings.sort).name) : "";
          }},
    flag<&Settings::is_inverted>("inverted"),
    flag<&Settings::is_tree>("tree"),
    flag<&Settings::shows_allocators>("allocators"),
    Entry{"plots", tr_later("\"memory\", \"power\" or \"none\""), take_plot,
          [](const Settings& settings) {
            return settings.plot ? toml_string(kPlots.at(static_cast<size_t>(*settings.plot))) : "";
          }},
    Entry{"period", tr_later("a time from \"0.1s\" to \"1h\""), take_period,
          [](const Settings& settings) {
            return settings.period_ns
                       ? fmt::format("\"{}ms\"", *settings.period_ns / kMillisecondNs)
                       : "";
          }},
    Entry{"hidden", kColumns, take_hidden, hidden_text},
};

std::vector<std::string> keys() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.key);
  return names;
}

}  // namespace

bool is_period(int64_t period_ns) {
  return period_ns >= static_cast<int64_t>(kPeriodsMs.front() * kMillisecondNs) &&
         period_ns <= static_cast<int64_t>(kPeriodsMs.back() * kMillisecondNs);
}

Settings settings_of(const TopState& state) {
  return {state.order.sort, state.order.is_inverted, state.order.is_tree, state.shows_allocators,
          state.plot,       state.period_ns,         state.hidden};
}

void apply(const Settings& settings, TopState& state) {
  const Settings all = put_over(settings_of(state), settings);
  state.order.sort = *all.sort;
  state.order.is_inverted = *all.is_inverted;
  state.order.is_tree = *all.is_tree;
  state.shows_allocators = *all.shows_allocators;
  state.plot = *all.plot;
  state.period_ns = *all.period_ns;
  state.hidden = *all.hidden;
}

Settings put_over(const Settings& below, const Settings& above) {
  Settings result = below;
  for_each_member(result, above, [](auto& mine, const auto& other) {
    if (other) mine = other;
  });
  return result;
}

Settings changes(const Settings& before, const Settings& after) {
  Settings result = after;
  for_each_member(result, before, [](auto& mine, const auto& other) {
    if (mine == other) mine.reset();
  });
  if (result.sort || result.is_inverted) {
    result.sort = after.sort;
    result.is_inverted = after.is_inverted;
  }
  return result;
}

std::string to_toml(const Settings& settings) {
  std::string text = "# How vram top was left; it writes this at its end. docs/top.md\n";
  for (const Entry& entry : kEntries) {
    const std::string value = entry.text(settings);
    if (!value.empty()) text += fmt::format("{} = {}\n", entry.key, value);
  }
  return text;
}

Result<Settings> settings_of_toml(std::string_view text, const std::string& name) {
  const auto top = read_toml(text, name);
  if (!top) return tl::unexpected(top.error());
  Settings settings;
  for (const Given& given : *top->table) {
    const auto* const entry = std::ranges::find(kEntries, std::string_view(given.key), &Entry::key);
    if (entry == kEntries.end())
      return toml_error(
          name, given.key_place,
          trf("expected a setting ({}), found '{}'{}", fmt::join(keys(), ", "),
              shorten_end(printable(given.key), kShownColumns), did_you_mean(given.key, keys())));
    if (!entry->take(given, settings))
      return toml_error(
          name, given.place,
          trf("{}: expected {}, found {}", entry->key, tr(entry->wanted), given.found));
  }
  return settings;
}

}  // namespace vram::show::top
