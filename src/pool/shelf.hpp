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

  // Threads meet at the pool, or one comes there and meets nobody.
  void met_others() { heat_.store(kHottest, std::memory_order_relaxed); }
  void met_nobody() {
    const uint32_t heat = heat_.load(std::memory_order_relaxed);
    if (heat > 0) heat_.store(heat - 1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_hot() const { return heat_.load(std::memory_order_relaxed) > 0; }
  // Bytes that were lent to it.
  [[nodiscard]] uint64_t lent_bytes() const { return lent_bytes_.load(std::memory_order_relaxed); }

  // 0: there is no room.
  [[nodiscard]] Address allocate(uint64_t bytes, StreamHandle stream);
  // False where no block of this shelf begins there.
  [[nodiscard]] bool free(Address address);
  [[nodiscard]] bool holds(Address address);
  void add(const Lease& lease, StreamHandle stream);
  [[nodiscard]] Counts counts();
  void reset_sums();

  // Empties it: visit(lease, stream, part) for each part, those of a lease in order of address.
  template <typename Visit>
  void clear(Visit visit) {
    const std::lock_guard guard(lock_);
    for (Lent& lent : lent_) {
      for (NodeId id = lent.first; id != kNoNode; id = arena_[id].next) {
        visit(lent.lease, arena_.stream(lent.stream), part_of(id));
      }
    }
    forget_all();
  }

 private:
  static constexpr uint32_t kHottest = 256;
  struct Lent {
    Lease lease;
    NodeId first = kNoNode;
    StreamIndex stream = kNoStream;
  };
  [[nodiscard]] Part part_of(NodeId id) const;
  void forget_all();

  std::atomic<uint32_t> heat_{0};
  std::atomic<uint64_t> lent_bytes_{0};
  SpinLock lock_;
  Arena arena_;
  AddressMap blocks_;                      // their nodes, by where they begin
  std::vector<uint64_t> requested_bytes_;  // by node
  std::vector<Lent> lent_;
  Counts counts_;
};

}  // namespace vram::pool
