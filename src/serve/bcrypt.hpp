// bcrypt, of the system's libcrypt, opened when the first user is named. Any thread.
#pragma once

#include "base/result.hpp"

#include <string>
#include <vector>

namespace vram::serve {

class Bcrypt {
 public:
  // kUnsupported: none of these libraries is there, or none that knows bcrypt.
  [[nodiscard]] static Result<Bcrypt> load(const std::vector<std::string>& files);
  // The system's, loaded once and kept.
  [[nodiscard]] static const Result<Bcrypt>& library();

  // The password's hash with the settings (salt, cost) that a hash begins with; empty where it
  // can't be made. Takes a part of a second, by the cost.
  [[nodiscard]] std::string hash(const std::string& password, const std::string& settings) const;

 private:
  // Allocates what it works in, and gives the result a place there.
  char* (*crypt_)(const char* password, const char* settings, void** data, int* size) = nullptr;
};

}  // namespace vram::serve
