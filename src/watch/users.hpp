// Users' names by uid. Each name is looked up once, since the lookup may use the network. Use it
// from one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace vram::watch {

class Users {
 public:
  // Nothing: the number has no name here.
  [[nodiscard]] const std::optional<std::string>& name(uint32_t uid);

 private:
  std::unordered_map<uint32_t, std::optional<std::string>> names_;
};

}  // namespace vram::watch
