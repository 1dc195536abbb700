// Node: a part of the arena, free or live, and what is known about it. Nodes of adjoining memory
// are chained in order of address; free ones are in a FreeIndex, too. A value, and a line of
// the cache; kept by Arena.
#pragma once

#include "pool/sizes.hpp"
#include "pool/stamp.hpp"

#include <cstdint>
#include <limits>

namespace vram::pool {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = std::numeric_limits<NodeId>::max();

using StreamIndex = uint32_t;                // the pool's own numbering
inline constexpr StreamIndex kNoStream = 0;  // nothing is queued any more that uses it

// Memory kept apart, so that what lives long does not lie among what lives short.
enum class Lane : uint8_t { kSmall, kLarge };
inline constexpr uint32_t kLaneCount = 2;

[[nodiscard]] constexpr Lane lane_of(uint64_t requested_bytes) {
  return requested_bytes > kSmallBytes ? Lane::kLarge : Lane::kSmall;
}

enum class NodeState : uint8_t { kUnused, kFree, kLive };

struct alignas(64) Node {
  Address address = 0;
  uint64_t size_bytes = 0;
  Stamp stamp = 0;  // of the stream's work that used it last
  NodeId prev = kNoNode;
  NodeId next = kNoNode;
  NodeId bin_prev = kNoNode;
  NodeId bin_next = kNoNode;
  StreamIndex stream = kNoStream;
  Lane lane = Lane::kLarge;
  NodeState state = NodeState::kUnused;
};

}  // namespace vram::pool
