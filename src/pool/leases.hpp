// Leases: memory of the pool that is lent to a shelf (shelf.hpp), which cuts it into blocks of its
// own. A lease is a live node of the arena that belongs to no block. It comes back piece by piece,
// from its beginning. One thread at a time.
#pragma once

#include "pool/arena.hpp"

#include <cstdint>

namespace vram::pool {

// Memory that a shelf cuts into blocks.
struct Lease {
  Address address = 0;
  uint64_t bytes = 0;
  NodeId node = kNoNode;
  Lane lane = Lane::kLarge;
};

class Leases {
 public:
  // arena must outlive it.
  explicit Leases(Arena& arena) : arena_(arena) {}

  // Lends a free piece that the stream may use at once: of max_bytes, else of half as much, and so
  // on down to min_bytes. False: there is none.
  [[nodiscard]] bool lend(uint64_t min_bytes, uint64_t max_bytes, StreamIndex stream, Lease* lease);
  // The first bytes of the lease come back, as a live node that belongs to the caller.
  [[nodiscard]] NodeId take_back(Lease* lease, uint64_t bytes);
  // Bytes that are lent now.
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  Arena& arena_;
  uint64_t bytes_ = 0;
};

}  // namespace vram::pool
