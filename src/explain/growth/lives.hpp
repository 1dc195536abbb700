// Lives: are blocks that stay other blocks than those of their place that are freed, or have they
// only lived longer? Nothing here depends on memory.
#pragma once

#include <cstdint>
#include <span>

namespace vram::explain {

// A block that outlived `age` ends of steps and was freed in the step `death`, or is alive.
struct Life {
  static constexpr uint32_t kAlive = 0xffffffff;
  uint32_t age = 0;
  uint32_t death = kAlive;
  uint32_t longest = 0;  // the age that freed blocks of its place reached, but for a few
};

// If all had the same fate: the probability that so few are freed at ages beyond `longest`. In the
// ages shortly before, blocks were freed at some rate; had that gone on, so would more have been.
// The rate is taken from the last quarter and from the last half of these ages: programs free
// blocks at a fixed age, at any age, and less often the older they are. Steps in which blocks are
// freed count once: a collection frees many. Ages below `least` are not examined.
[[nodiscard]] double same_fate_probability(std::span<const Life> lives, uint32_t least);

}  // namespace vram::explain
