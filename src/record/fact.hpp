// Fact: what a recording is told besides what happens: about the process or the machine, or a
// setting of the allocator.
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
