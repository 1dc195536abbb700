// Shelf: memory lent to a thread by the pool, which it cuts into blocks and joins again on its own,
// as the pool does (arena.hpp), so that it need not meet others there. Only where threads compete
// (SharedPool decides). What is lent serves one stream. Any thread; takes no other lock; allocates
// when there were never as many blocks.
#pragma once

#include "base/address_map.hpp"
#include "base/spin_lock.hpp"
#include "pool/arena.hpp"
#include "pool/pool.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace vram::pool {

class alignas(64) Shelf {
 public:
  struct Sum {
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    uint64_t requested_bytes = 0;
    void add(uint64_t size_bytes, uint64_t requested);
    void drop(uint64_t size_bytes, uint64_t requested);
  };
  struct Counts {
    Sum live;
    Sum served;
  };
  // A part of what was lent, in order of address.
  struct Part {
    Address address = 0;
    uint64_t size_bytes = 0;
    uint64_t requested_bytes = 0;
    bool is_live = false;
  };

  // Bytes that were lent to it.
  [[nodiscard]] uint64_t lent_bytes() const { return lent_bytes_.load(std::memory_order_relaxed); }

  // What it should be lent for a request that it has no room for; 0: it has more than enough
  // already, in pieces that do not fit, and gives that back first.
  [[nodiscard]] uint64_t lease_bytes(uint64_t bytes);

  // 0: there is no room.
  [[nodiscard]] Address allocate(uint64_t bytes, StreamHandle stream);
  // False where no block of this shelf begins there.
  [[nodiscard]] bool free(Address address);
  // Of the block that begins there; false where none does.
  [[nodiscard]] bool find(Address address, BlockInfo* info);
  void add(const Lease& lease, StreamHandle stream);
  [[nodiscard]] Counts counts();
  void reset_sums();

  // Empties it: visit(lease, stream, part) for each part, those of a lease in order of address.
  template <typename Visit>
  void clear(Visit visit) {
    const std::lock_guard guard(lock_);
    for (const Lent& lent : lent_) visit_parts(lent, visit);
    forget_all();
  }
  // Of leases in which no block lives.
  template <typename Visit>
  void give_back_idle(Visit visit) {
    const std::lock_guard guard(lock_);
    for (size_t i = lent_.size(); i-- > 0;) {
      if (is_idle(lent_[i])) take_out(i, visit);
    }
  }
  // Of the lease in which a block begins there; false where none does.
  template <typename Visit>
  bool give_back(Address address, Visit visit) {
    const std::lock_guard guard(lock_);
    const NodeId block = blocks_.find(address);
    if (block == AddressMap::kNone) return false;
    take_out(lent_around(address), visit);
    return true;
  }

 private:
  struct Lent {
    Lease lease;
    NodeId first = kNoNode;
    StreamIndex stream = kNoStream;
  };
  template <typename Visit>
  void visit_parts(const Lent& lent, Visit visit) {
    for (NodeId id = lent.first; id != kNoNode; id = arena_[id].next) {
      visit(lent.lease, arena_.stream(lent.stream), part_of(id));
    }
  }
  [[nodiscard]] Part part_of(NodeId id) const;
  template <typename Visit>
  void take_out(size_t lent, Visit& visit) {
    visit_parts(lent_[lent], visit);
    forget(lent);
  }
  [[nodiscard]] bool is_idle(const Lent& lent) const;
  [[nodiscard]] size_t lent_around(Address address) const;
  void forget(size_t lent);
  void forget_all();

  std::atomic<uint64_t> lent_bytes_{0};
  SpinLock lock_;
  Arena arena_;
  AddressMap blocks_;                      // their nodes, by where they begin
  std::vector<uint64_t> requested_bytes_;  // by node
  std::vector<Lent> lent_;
  Counts counts_;
  uint64_t peak_bytes_ = 0;  // of live blocks, of all times
};

}  // namespace vram::pool
