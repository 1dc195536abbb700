#include "exports/torch/settings.hpp"

#include "base/python_text.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace vram::exports {
namespace {

using trace::Setting;

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Only what prints as the same text again.
bool write_number(std::string_view text, PickleWriter& out) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return false;
  if (const auto number = parse<int64_t>(text); number && std::to_string(*number) == text) {
    out.integer(*number);
    return true;
  }
  if (const auto number = parse<uint64_t>(text); number && std::to_string(*number) == text) {
    out.unsigned_integer(*number);
    return true;
  }
  const auto number = parse<double>(text);
  if (!number || python_float(*number) != text) return false;
  out.real(*number);
  return true;
}

bool write_scalar(std::string_view text, PickleWriter& out) {
  if (text == "None")
    out.none();
  else if (text == "True" || text == "False")
    out.boolean(text == "True");
  else
    return write_number(text, out);
  return true;
}

std::vector<std::string_view> split_list(std::string_view items) {
  constexpr std::string_view kComma = ", ";
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t comma = items.find(kComma);
    parts.push_back(items.substr(0, comma));
    if (comma == items.npos) return parts;
    items.remove_prefix(comma + kComma.size());
  }
}

// "[False, True]"; a list with anything else stays a text.
bool write_list(std::string_view text, PickleWriter& out) {
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return false;
  const auto items = split_list(text.substr(1, text.size() - 2));
  std::string ignored;
  PickleWriter trial(ignored);
  if (!std::ranges::all_of(items, [&](std::string_view item) { return write_scalar(item, trial); }))
    return false;
  out.empty_list();
  out.mark();
  for (const std::string_view item : items) write_scalar(item, out);
  out.append_items();
  return true;
}

void write_value(std::string_view text, PickleWriter& out) {
  if (!write_scalar(text, out) && !write_list(text, out)) out.text(valid_utf8(text));
}

// "roundup_power2_divisions." of "roundup_power2_divisions.1"; empty if the key is of no group.
std::string_view group_of(std::string_view key) { return key.substr(0, key.find('.') + 1); }

using Members = std::vector<const Setting*>;

void write_member(const Setting& setting, size_t prefix, PickleWriter& out) {
  out.text(valid_utf8(std::string_view(setting.key).substr(prefix)));
  write_value(setting.value, out);
}

void write_group(std::string_view group, const Members& members, PickleWriter& out) {
  out.text(valid_utf8(group.substr(0, group.size() - 1)));
  out.empty_dict();
  out.mark();
  for (const Setting* member : members) write_member(*member, group.size(), out);
  out.set_items();
}

}  // namespace

void write_settings(std::span<const Setting> settings, PickleWriter& out) {
  std::unordered_set<std::string_view> keys;
  std::unordered_map<std::string_view, Members> groups;
  for (const Setting& setting : settings) {
    keys.insert(setting.key);
    groups[group_of(setting.key)].push_back(&setting);
  }
  out.empty_dict();
  out.mark();
  for (const Setting& setting : settings) {
    const std::string_view group = group_of(setting.key);
    // A dictionary has one value for a key.
    if (group.empty() || keys.contains(group.substr(0, group.size() - 1)))
      write_member(setting, 0, out);
    else if (groups[group].front() == &setting)
      write_group(group, groups[group], out);
  }
  out.set_items();
}

}  // namespace vram::exports
