// Why a request failed: the facts, what holds the memory, and a text for people with numbers and
// what would help. Allocates nothing: memory may be short on the host, too. Pure.
#pragma once

#include "pool/interface.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vram::pool {

// The sizes of block that hold most of the live memory, for the text of a request that
// failed. Found in two walks over the blocks and a fixed table, as memory may be short on the host,
// too: the first walk picks the sizes that may hold much (the frequent elements of Misra and Gries,
// 1982, weighed by bytes), the second counts those. A size that holds more than one part in 64 of
// all bytes is never missed. Plain values; allocates nothing.
struct Holder {
  uint64_t size_bytes = 0;
  uint64_t count = 0;  // 0: there are no more
};
// Who holds most first.
using Holders = std::array<Holder, 5>;

class HolderSearch {
 public:
  // For each block; then count() for each block.
  void weigh(uint64_t size_bytes);
  void count(uint64_t size_bytes);
  [[nodiscard]] Holders most();

 private:
  static constexpr size_t kCandidates = 64;
  struct Candidate {
    uint64_t size_bytes = 0;
    uint64_t weight = 0;
    uint64_t count = 0;
  };
  std::array<Candidate, kCandidates> candidates_{};
};

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

// What the text needs besides the facts of the request.
struct OomScene {
  uint32_t device = 0;
  uint64_t allocated_bytes = 0;  // in live blocks
  const char* recording = "";    // the file that is being written; none: ""
};

// Writes as much as fits and ends it with a 0; answers how long all of it is.
size_t write_oom_text(const OomFacts& facts, const OomScene& scene, std::span<char> text);

}  // namespace vram::pool
