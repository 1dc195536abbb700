#include "pool/holders.hpp"

#include <algorithm>
#include <utility>

namespace vram::pool {

// A size that finds no place takes as much weight from all others as from itself.
void HolderSearch::weigh(uint64_t size_bytes) {
  Candidate* least = candidates_.data();
  for (Candidate& candidate : candidates_) {
    if (candidate.size_bytes == size_bytes) {
      candidate.weight += size_bytes;
      return;
    }
    if (candidate.weight < least->weight) least = &candidate;
  }
  const uint64_t taken = std::min(least->weight, size_bytes);
  for (Candidate& candidate : candidates_) candidate.weight -= taken;
  if (taken < size_bytes) *least = {.size_bytes = size_bytes, .weight = size_bytes - taken};
}

void HolderSearch::count(uint64_t size_bytes) {
  for (Candidate& candidate : candidates_) {
    if (candidate.size_bytes == size_bytes) ++candidate.count;
  }
}

Holders HolderSearch::most() {
  const auto rank = [](const Candidate& candidate) {
    return std::pair{candidate.size_bytes * candidate.count, candidate.size_bytes};
  };
  std::ranges::sort(candidates_, std::ranges::greater{}, rank);
  Holders holders;
  std::ranges::transform(
      candidates_.begin(), candidates_.begin() + holders.size(), holders.begin(),
      [](const Candidate& candidate) { return Holder{candidate.size_bytes, candidate.count}; });
  return holders;
}

}  // namespace vram::pool
