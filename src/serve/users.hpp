// Users with passwords (HTTP Basic). Files contain bcrypt hashes; a correct password is cached, so
// that a scrape does not take a fraction of a second each time. Passwords appear in no log and no
// error. May be used from any thread.
#pragma once

#include "base/result.hpp"
#include "serve/bcrypt.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {

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
