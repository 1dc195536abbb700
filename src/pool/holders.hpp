// Holders: the sizes of block that hold most of the live memory, for the text of a request that
// failed. Found in two walks over the blocks and a fixed table, as memory may be short on the host,
// too: the first walk picks the sizes that may hold much (the frequent elements of Misra and Gries,
// 1982, weighed by bytes), the second counts those. A size that holds more than one part in 64 of
// all bytes is never missed. Plain values; allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vram::pool {

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

}  // namespace vram::pool
