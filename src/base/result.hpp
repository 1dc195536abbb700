// Result<T>: how an expected failure travels. A file that is truncated, a size that does not parse,
// a disk that is full are results, not exceptions; the message is one line for people: what was
// expected, what was found, what to do.
#pragma once

#include <fmt/format.h>
#include <tl/expected.hpp>

#include <exception>
#include <string>
#include <utility>

namespace vram {

enum class Code {
  kBadInput,     // the bytes or the words given cannot be what they claim to be
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

// What Result::value() throws if there is an error. tl's own says "Bad expected access"; this one
// says what went wrong, so a test that takes a value() fails with the error's message.
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

// fail(Code::kBadInput, "expected {} at byte {}", what, offset)
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace vram
