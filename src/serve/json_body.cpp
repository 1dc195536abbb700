#include "serve/json_body.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace vram::serve {
namespace {

constexpr size_t kMaxNumbers = 1000;
constexpr int kMaxBodyDepth = 4;

tl::unexpected<Error> wrong_member(std::string_view name, std::string_view expected,
                                   const Json& found) {
  return fail(Code::kBadInput, "{}: expected {}, found {}", name, expected,
              printable(found.dump(-1, ' ', true).substr(0, 100)));
}

// Of untrusted text: deep nesting would exhaust the stack. Brackets in texts nest nothing.
bool is_shallow(std::string_view body) {
  int depth = 0;
  bool is_in_text = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char each = body[i];
    if (each == '"') is_in_text = !is_in_text;
    if (is_in_text) {
      if (each == '\\') ++i;  // what it escapes
      continue;
    }
    if (each == '{' || each == '[') ++depth;
    if (each == '}' || each == ']') --depth;
    if (depth > kMaxBodyDepth) return false;
  }
  return true;
}

}  // namespace

Result<JsonBody> JsonBody::parse(std::string_view body,
                                 const std::vector<std::string_view>& names) {
  Json object = is_shallow(body) ? Json::parse(body, nullptr, false) : Json();
  if (!object.is_object())
    return fail(Code::kBadInput, "expected a JSON object as the body, with the members {}",
                fmt::join(names, ", "));
  for (const auto& member : object.items()) {
    if (std::ranges::find(names, member.key()) == names.end())
      return fail(Code::kBadInput, "there is no member '{}'; expected {}",
                  printable(member.key().substr(0, 100)), fmt::join(names, ", "));
  }
  return JsonBody(std::move(object));
}

const Json* JsonBody::find(std::string_view name) const {
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<std::string>> JsonBody::text(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong_member(name, "a text", *value);
  return value->get<std::string>();
}

Result<std::optional<uint64_t>> JsonBody::number(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned()) return wrong_member(name, "an integer of at least 0", *value);
  return value->get<uint64_t>();
}

Result<std::optional<bool>> JsonBody::flag(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return wrong_member(name, "true or false", *value);
  return value->get<bool>();
}

Result<std::optional<int64_t>> JsonBody::duration_ns(std::string_view name) const {
  VRAM_TRY_ASSIGN(const auto given, text(name));
  if (!given) return std::nullopt;
  const auto parsed = parse_duration_ns(*given);
  if (!parsed) return fail(Code::kBadInput, "{}: {}", name, parsed.error().message);
  return *parsed;
}

Result<std::vector<uint32_t>> JsonBody::numbers(std::string_view name) const {
  std::vector<uint32_t> found;
  const Json* const value = find(name);
  if (value == nullptr) return found;
  if (!value->is_array() || value->size() > kMaxNumbers)
    return wrong_member(name, "an array of integers", *value);
  for (const Json& each : *value) {
    const bool fits =
        each.is_number_unsigned() && each.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
    if (!fits) return wrong_member(name, "an array of integers", *value);
    found.push_back(each.get<uint32_t>());
  }
  return found;
}

}  // namespace vram::serve
