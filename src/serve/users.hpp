// Users with passwords (HTTP Basic). Files contain bcrypt hashes; a correct password is cached, so
// that a scrape does not take a fraction of a second each time. Passwords appear in no log and no
// error. May be used from any thread.
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
