// Ledger: which block lies at an address, for callers who name blocks by address. Open addressing,
// a few loads. One thread at a time; allocates when there were never as many.
#pragma once

#include "pool/pool.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vram::pool {

class Ledger {
 public:
  // No block is at that address yet.
  void add(Address address, BlockId block);
  // The block there; false where there is none.
  [[nodiscard]] bool find(Address address, BlockId* block) const;
  // The same, taken out.
  [[nodiscard]] bool take(Address address, BlockId* block);

 private:
  struct Entry {
    Address address = 0;  // 0: none
    BlockId block;
  };
  // Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
  [[nodiscard]] size_t home(Address address) const {
    return (address >> 9) * 0x9e37'79b9'7f4a'7c15 >> shift_;
  }
  [[nodiscard]] size_t place_of(Address address) const;
  void grow();
  void close_gap(size_t gap);

  static constexpr uint32_t kFirstLog2 = 6;
  uint32_t shift_ = 64 - kFirstLog2;
  size_t used_ = 0;
  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << kFirstLog2);
};

}  // namespace vram::pool
