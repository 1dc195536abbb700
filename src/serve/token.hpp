// The secret that clients show when the server is reached from other machines: read from a file,
// never from the command line, which everybody sees. It is in no log and no error. Any thread.
#pragma once

#include "base/result.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace vram::serve {

// The file's only line. Refused: a file that others may read, or a token that is too short to be
// one.
[[nodiscard]] Result<std::string> read_token(const std::string& path);

// Compares all bytes, so that its duration does not depend on the contents; `secret` is not empty.
[[nodiscard]] bool is_same_secret(std::string_view shown, std::string_view secret);
// Whether a header "Authorization" begins with this, in any case: "bearer ".
[[nodiscard]] bool has_scheme(std::string_view authorization, std::string_view scheme);

class Token {
 public:
  // Empty: everybody is let in.
  explicit Token(std::string secret) : secret_(std::move(secret)) {}
  // Whether it is another one.
  [[nodiscard]] bool replace(std::string secret);
  [[nodiscard]] bool is_wanted() const;
  // Of a header "Authorization". Takes as long for a wrong token as for the right one.
  [[nodiscard]] bool accepts_authorization(std::string_view authorization) const;

 private:
  mutable std::mutex mutex_;
  std::string secret_;
};

// Secrets in files: a token, a URL with a password. The command line, which is public, contains
// only the file's name. Errors never repeat a file's contents. May be called from any thread.

// Printable ASCII without spaces, and some of it.
[[nodiscard]] bool is_one_word(std::string_view text);

// Returns the file's contents without trailing newlines. Refuses a file that is not regular, is
// readable by others, belongs to a user other than this one and root, or cannot be read within
// kSettingsTimeout.
[[nodiscard]] Result<std::string> read_secret(const std::string& path);

// As an option gives it: a URL, or @FILE, a file whose only line is one.
[[nodiscard]] Result<std::string> url_of(const std::string& given);

}  // namespace vram::serve
