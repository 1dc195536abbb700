// OomText: why a request failed, for people, with numbers and what would help. Allocates nothing:
// memory may be short on the host, too. Pure.
#pragma once

#include "pool/oom_facts.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vram::pool {

// What the text needs besides the facts of the request.
struct OomScene {
  uint32_t device = 0;
  uint64_t allocated_bytes = 0;  // in live blocks
  const char* recording = "";    // the file that is being written; none: ""
};

// Writes as much as fits and ends it with a 0; answers how long all of it is.
size_t write_oom_text(const OomFacts& facts, const OomScene& scene, std::span<char> text);

}  // namespace vram::pool
