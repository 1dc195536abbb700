// OomFacts: why a request could not be served. A value; oom_text.hpp puts it into words.
#pragma once

#include "pool/holders.hpp"
#include "pool/options.hpp"

#include <cstdint>

namespace vram::pool {

struct OomFacts {
  uint64_t requested_bytes = 0;
  uint64_t largest_free_bytes = 0;  // in one piece
  uint64_t free_bytes = 0;          // in the pool, in pieces that can't be made one range
  uint64_t held_bytes = 0;          // freed, and still used by other streams
  uint64_t reserved_bytes = 0;
  uint64_t limit_bytes = 0;
  uint64_t device_free_bytes = 0;
  uint64_t device_total_bytes = 0;
  Backing backing = Backing::kVirtual;
  Holders holders;  // of live blocks
};

}  // namespace vram::pool
