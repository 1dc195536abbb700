// The body of a POST: one JSON object of a few members. Each member is read once, by its type;
// a missing, unknown or wrong member is an error that says what was expected. One thread.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

class JsonBody {
 public:
  // kBadInput: no JSON object, or a member that is not in `names`.
  [[nodiscard]] static Result<JsonBody> parse(std::string_view body,
                                              const std::vector<std::string_view>& names);

  // Nothing: there is none, or null. kBadInput: of another type.
  [[nodiscard]] Result<std::optional<std::string>> text(std::string_view name) const;
  [[nodiscard]] Result<std::optional<uint64_t>> number(std::string_view name) const;
  [[nodiscard]] Result<std::optional<bool>> flag(std::string_view name) const;
  // As text: "90s", "10min", "2h".
  [[nodiscard]] Result<std::optional<int64_t>> duration_ns(std::string_view name) const;
  // An array of at most 1000; empty if there is none.
  [[nodiscard]] Result<std::vector<uint32_t>> numbers(std::string_view name) const;

 private:
  explicit JsonBody(Json object) : object_(std::move(object)) {}
  [[nodiscard]] const Json* find(std::string_view name) const;
  Json object_;
};

}  // namespace vram::serve
