// Config: the values of a Hugging Face config.json. It remembers the first error, so that a reader
// can read all values first. Keys that it is not asked for are ignored: they do not concern memory.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "plan/model/architecture.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace vram::plan {

class Config {
 public:
  explicit Config(const Json& json) : json_(json) {}

  // From 1 to `max`; a null or absent value is an error.
  uint64_t required(const char* key, uint64_t max = kMaxWidth);
  // The same with a value for null or absent.
  uint64_t number(const char* key, uint64_t fallback, uint64_t max = kMaxWidth);
  // None if null or 0; `absent` if it is not there.
  std::optional<uint64_t> optional(const char* key, std::optional<uint64_t> absent = {});
  bool flag(const char* key, bool fallback);
  // Whether a number, such as the probability of dropout, is above 0; null is not.
  bool is_above_zero(const char* key, double fallback);
  std::string text(const char* key, const char* fallback);
  // An array, or null if it is absent or none.
  [[nodiscard]] const Json* array(const char* key) const;
  // Whether it is there and not null.
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }

  template <typename... Args>
  void refuse(Code code, fmt::format_string<Args...> format, Args&&... args) {
    if (!error_) error_ = Error{code, fmt::format(format, std::forward<Args>(args)...)};
  }
  // The first error.
  [[nodiscard]] Result<> finish() const;

 private:
  // None if it is null.
  [[nodiscard]] const Json* find(const char* key) const;

  const Json& json_;
  std::optional<Error> error_;
};

}  // namespace vram::plan
