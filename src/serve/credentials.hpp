// What clients show when the server is reached from other machines: a token, or the name and
// password of a user. Secrets are read from files, never from the command line, which everybody
// sees. They are in no log and no error. Any thread.
#pragma once

#include "base/result.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {

// The file's only line. Refused: a file that others may read, or a token that is too short to be
// one.
[[nodiscard]] Result<std::string> read_token(const std::string& path);

// Compares all bytes, so that its duration does not depend on the contents; `secret` is not empty.
[[nodiscard]] bool is_same_secret(std::string_view shown, std::string_view secret);
// Whether a header "Authorization" begins with this, in any case: "bearer ".
[[nodiscard]] bool has_scheme(std::string_view authorization, std::string_view scheme);

// The secret that all clients share.
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

// bcrypt, of the system's libcrypt, opened when the first user is named. Any thread.
class Bcrypt {
 public:
  // kUnsupported: none of these libraries exists and supports bcrypt.
  [[nodiscard]] static Result<Bcrypt> load(const std::vector<std::string>& files);
  // Returns the system's library, loaded once.
  [[nodiscard]] static const Result<Bcrypt>& library();

  // The password's hash with the settings (salt, cost) that a hash begins with; empty where it
  // can't be made. Takes a part of a second, by the cost.
  [[nodiscard]] std::string hash(const std::string& password, const std::string& settings) const;

 private:
  // Allocates its working memory, which also contains the result.
  char* (*crypt_)(const char* password, const char* settings, void** data, int* size) = nullptr;
};

// Users with passwords (HTTP Basic). Files contain bcrypt hashes; a correct password is cached, so
// that a scrape does not take a fraction of a second each time.
class Users {
 public:
  // Names and hashes; kUnsupported: the system has no bcrypt.
  [[nodiscard]] static Result<std::shared_ptr<Users>> of(
      const std::vector<std::pair<std::string, std::string>>& hashes);

  // Checks an "Authorization" header. Nothing: only check() can decide.
  [[nodiscard]] std::optional<bool> accepts_authorization(std::string_view authorization) const;
  // Takes as long for a name that there is not.
  [[nodiscard]] bool check(std::string_view authorization);

 private:
  struct User {
    std::string hash;
    std::string known_password = {};  // one that was right
  };
  explicit Users(const Bcrypt& bcrypt) : bcrypt_(bcrypt) {}

  const Bcrypt& bcrypt_;
  mutable std::mutex mutex_;  // guards the passwords
  std::map<std::string, User> users_;
};

}  // namespace vram::serve
