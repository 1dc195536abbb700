// StackCache: the stacks that a thread has met lately, by the hashes of their raw frames. Their
// code is never freed, so a hash means the same for good.
//
// A loop's stacks come in turn, in each step again. One that finds its place taken each time would
// be walked in each step, for which a thread without the GIL waits for another one: so a hash has
// a set of places, which are one line of the processor's cache. The oldest stack of a full set
// goes.
#pragma once

#include "record/record.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace vram::record {

class StackCache {
 public:
  static constexpr size_t kWays = 4;
  static constexpr size_t kSets = 1024;

  // 0: it is unknown. No stack has the hash 0.
  [[nodiscard]] StackId find(uint64_t hash) const {
    for (const Entry& entry : sets_[hash % kSets].entries)
      if (entry.hash == hash) return entry.stack;
    return 0;
  }
  void add(uint64_t hash, StackId stack) {
    auto& entries = sets_[hash % kSets].entries;
    std::shift_right(entries.begin(), entries.end(), 1);
    entries.front() = {hash, stack};
  }

 private:
  struct Entry {
    uint64_t hash = 0;
    StackId stack = 0;
  };
  struct alignas(64) Set {
    std::array<Entry, kWays> entries;
  };
  std::array<Set, kSets> sets_;
};

}  // namespace vram::record
