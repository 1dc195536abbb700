#include "plan/model/config.hpp"

#include "base/text.hpp"

namespace vram::plan {
namespace {

std::string found(const Json& value) { return printable(limit_bytes(value.dump(), 40)); }

}  // namespace

const Json* Config::find(const char* key) const {
  const auto value = json_.find(key);
  return value == json_.end() || value->is_null() ? nullptr : &*value;
}

uint64_t Config::required(const char* key, uint64_t max) {
  if (!has(key)) {
    refuse(Code::kBadInput, "\"{}\" is missing; expected an integer from 1 to {}", key, max);
    return 1;
  }
  return number(key, 1, max);
}

uint64_t Config::number(const char* key, uint64_t fallback, uint64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number_unsigned()) {
    const auto number = value->get<uint64_t>();
    if (number >= 1 && number <= max) return number;
  }
  refuse(Code::kBadInput, "\"{}\" must be an integer from 1 to {}, found {}", key, max,
         found(*value));
  return fallback;
}

std::optional<uint64_t> Config::optional(const char* key, std::optional<uint64_t> absent) {
  if (!json_.contains(key)) return absent;
  const Json* value = find(key);
  if (value == nullptr || *value == 0) return std::nullopt;
  return number(key, 1, kMaxPositions);
}

bool Config::flag(const char* key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  refuse(Code::kBadInput, "\"{}\" must be true or false, found {}", key, found(*value));
  return fallback;
}

bool Config::is_above_zero(const char* key, double fallback) {
  if (!json_.contains(key)) return fallback > 0;
  const Json* value = find(key);
  if (value == nullptr) return false;
  if (value->is_number()) return value->get<double>() > 0;
  refuse(Code::kBadInput, "\"{}\" must be a number, found {}", key, found(*value));
  return false;
}

std::string Config::text(const char* key, const char* fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  refuse(Code::kBadInput, "\"{}\" must be a text, found {}", key, found(*value));
  return fallback;
}

const Json* Config::array(const char* key) const {
  const Json* value = find(key);
  return value != nullptr && value->is_array() ? value : nullptr;
}

Result<> Config::finish() const {
  if (error_) return tl::unexpected(*error_);
  return {};
}

}  // namespace vram::plan
