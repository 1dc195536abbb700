// The types that name a block to the pool's users and pass a request between the pool's parts.
// Values.
#pragma once

#include "pool/node.hpp"

#include <cstdint>
#include <limits>

namespace vram::pool {

// A block, for as long as it lives; a block that has its index later has another serial. Serials
// wrap: they say nothing without the index.
struct BlockId {
  uint32_t index = std::numeric_limits<uint32_t>::max();
  uint32_t serial = 0;
  friend bool operator==(const BlockId&, const BlockId&) = default;
};

struct Allocation {
  Address address = 0;  // 0: out of memory
  BlockId block;
};

// A live block, or a part of the pool's memory as Pool::visit() shows it.
struct BlockInfo {
  Address address = 0;
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;
  StreamHandle stream = 0;
  bool is_live = false;
  bool is_held = false;  // live, but freed: work of other streams still uses it
};

// A request, rounded.
struct Wanted {
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;
  StreamIndex stream = kNoStream;
  Lane lane = Lane::kLarge;
};

}  // namespace vram::pool
