// bcrypt, of the system's libcrypt, opened when the first user is named. Any thread.
#pragma once

#include "base/result.hpp"

#include <string>
#include <vector>

namespace vram::serve {

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

}  // namespace vram::serve
