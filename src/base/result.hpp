// Result<T> returns expected failures such as a truncated file, an invalid size or a full disk;
// exceptions are not used for them. The message is one line: what was expected, what was found, and
// what to do.
#pragma once

#include "base/language.hpp"

#include <fmt/format.h>
#include <tl/expected.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

namespace vram {

enum class Code {
  kBadInput,     // invalid data or arguments
  kNotFound,     // no such file, device, event
  kIo,           // the operating system refused; the message carries its words
  kUnsupported,  // recognised, and not something this build reads
  kTooLarge,     // a limit that protects the reader was passed; the message names it
};

struct Error {
  Code code = Code::kBadInput;
  std::string message;
};

}  // namespace vram

// The exception of tl::expected::value() on an error. Unlike tl's "Bad expected access", it
// contains the error's message, which a failing test then shows.
template <>
class tl::bad_expected_access<vram::Error> : public std::exception {
 public:
  explicit bad_expected_access(vram::Error error) : error_(std::move(error)) {}
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }
  [[nodiscard]] const vram::Error& error() const { return error_; }

 private:
  vram::Error error_;
};

namespace vram {

template <typename T = void>
using Result = tl::expected<T, Error>;

// fail(Code::kBadInput, "expected {} at byte {}", what, offset), in the language of the user
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected(Error{code, trf(format, std::forward<Args>(args)...)});
}

// VRAM_CHECK: what must hold unless this program has a bug. Never reachable from input. Always on.

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "vram: internal error: %s does not hold (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace vram

// Returns the error of a Result from the calling function. VRAM_TRY(check(file)) drops the value;
// VRAM_TRY_ASSIGN(const auto file, InputFile::open(path)) declares a variable with it.
#define VRAM_TRY(...)                                       \
  do {                                                      \
    if (auto vram_tried = (__VA_ARGS__); !vram_tried)       \
      return tl::unexpected(std::move(vram_tried).error()); \
  } while (false)
#define VRAM_TRY_ASSIGN(declaration, ...) \
  VRAM_TRY_ASSIGN_AS(VRAM_TRY_NAME(__LINE__), declaration, __VA_ARGS__)
#define VRAM_TRY_NAME(line) VRAM_TRY_JOIN(vram_tried_, line)
#define VRAM_TRY_JOIN(name, line) name##line
#define VRAM_TRY_ASSIGN_AS(result, declaration, ...)             \
  auto result = (__VA_ARGS__);                                   \
  if (!result) return tl::unexpected(std::move(result).error()); \
  declaration = *std::move(result)

#define VRAM_CHECK(condition) \
  ((condition) ? void(0) : ::vram::check_failed(#condition, __FILE__, __LINE__))
