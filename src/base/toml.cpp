#include "base/toml.hpp"

#include "base/text.hpp"

#include <sstream>
#include <utility>

// toml++ before 3.5 asserts (and with NDEBUG lets clang assume) what a file with "[[[" makes
// untrue; the code behind the assertion then says what is wrong, which is what a reader of files
// needs.
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

namespace vram {
namespace {

constexpr int kShownColumns = 40;

TomlPlace place_of(const toml::source_region& source) {
  return {source.begin.line, source.begin.column};
}

std::string shown(const std::string& text) {
  return "'" + shorten_end(printable(text), kShownColumns) + "'";
}

TomlValue setting_of(const toml::node& node);

std::vector<TomlValue> list_of(const toml::array& array) {
  std::vector<TomlValue> items;
  for (const toml::node& item : array) items.push_back(setting_of(item));
  return items;
}

std::vector<TomlValue> table_of(const toml::table& table) {
  std::vector<TomlValue> items;
  for (const auto& [key, value] : table) {
    TomlValue& item = items.emplace_back(setting_of(value));
    item.key = std::string(key.str());
    item.key_place = place_of(key.source());
  }
  return items;
}

std::string text_of(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

// Nested no deeper than the parser allows.
TomlValue setting_of(const toml::node& node) {
  TomlValue setting;
  setting.place = place_of(node.source());
  if (const auto* const flag = node.as_boolean()) {
    setting.flag = flag->get();
    setting.found = flag->get() ? "true" : "false";
  } else if (const auto* const whole = node.as_integer()) {
    setting.number = static_cast<double>(whole->get());
    setting.found = std::to_string(whole->get());
  } else if (const auto* const number = node.as_floating_point()) {
    setting.number = number->get();
    setting.found = text_of(number->get());
  } else if (const auto* const text = node.as_string()) {
    setting.text = text->get();
    setting.found = shown(text->get());
  } else if (const auto* const array = node.as_array()) {
    setting.list = list_of(*array);
    setting.found = tr("a list");
  } else if (const auto* const table = node.as_table()) {
    setting.table = table_of(*table);
    setting.found = tr("a table");
  } else {
    setting.found = tr("a date or time");
  }
  return setting;
}

}  // namespace

Result<TomlValue> read_toml(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text);
  if (parsed) return setting_of(parsed.table());
  const toml::parse_error& error = parsed.error();
  const TomlPlace place = place_of(error.source());
  return fail(Code::kBadInput, "{}:{}:{}: expected TOML: {}", name, place.line, place.column,
              printable(error.description()));
}

tl::unexpected<Error> toml_error(const std::string& name, const TomlPlace& place,
                                 const std::string& what) {
  return fail(Code::kBadInput, "{}:{}:{}: {}", name, place.line, place.column, what);
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace vram
