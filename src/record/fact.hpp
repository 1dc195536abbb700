// Fact: information in a recording besides its events: about the process or the machine, or an
// allocator setting.
#pragma once

#include <cstdint>
#include <string>

namespace vram::record {

struct Fact {
  enum class Kind : uint8_t { kAbout, kSetting };
  Kind kind = Kind::kAbout;
  std::string key;
  std::string value;
};

}  // namespace vram::record
