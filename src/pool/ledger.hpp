// Ledger: which block lies at an address, for callers who name blocks by address. Cut into parts by
// address, each with a lock of its own, so that threads seldom meet. Any thread; allocates when a
// part grows.
#pragma once

#include "base/spin_lock.hpp"
#include "pool/pool.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace vram::pool {

struct Entry {
  Address address = 0;
  BlockId block;
  uint64_t size_bytes = 0;
  StreamHandle stream = 0;
  bool is_shared = false;  // other streams use it, too
};

class Ledger {
 public:
  // No entry of the address is there yet.
  void add(const Entry& entry);
  // The entry of that address, taken out; false where there is none.
  [[nodiscard]] bool take(Address address, Entry* entry);
  // The same, left there and marked as shared.
  [[nodiscard]] bool share(Address address, Entry* entry);

 private:
  static constexpr size_t kParts = 64;
  // Open addressing with linear probing; an entry without an address is none.
  struct alignas(64) Part {
    SpinLock lock;
    uint32_t used = 0;
    uint32_t shift = 58;
    std::vector<Entry> entries = std::vector<Entry>(64);

    [[nodiscard]] size_t home(uint64_t hash) const { return hash << 6 >> shift; }
    [[nodiscard]] size_t place_of(Address address, uint64_t hash) const;
    void insert(const Entry& entry, uint64_t hash);
    void grow();
    void close_gap(size_t gap);
  };
  // Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
  [[nodiscard]] static uint64_t hash_of(Address address) {
    return (address >> 9) * 0x9e37'79b9'7f4a'7c15;
  }
  [[nodiscard]] Part& part_of(uint64_t hash) { return parts_[hash >> 58]; }

  std::array<Part, kParts> parts_;
};

}  // namespace vram::pool
