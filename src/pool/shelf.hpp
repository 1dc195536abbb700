// Shelf: freed blocks that a thread keeps for its own next requests of the same size and stream, so
// that it need not meet others at the pool. Only where threads compete (SharedPool decides): a
// block on a shelf can't be joined to its neighbours. Bounded in blocks and bytes. Any thread;
// takes no other lock; allocates at its first use.
#pragma once

#include "base/spin_lock.hpp"
#include "pool/ledger.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace vram::pool {

class alignas(64) Shelf {
 public:
  // Threads meet at the pool, or one comes there and meets nobody.
  void met_others() { heat_.store(kHottest, std::memory_order_relaxed); }
  void met_nobody() {
    const uint32_t heat = heat_.load(std::memory_order_relaxed);
    if (heat > 0) heat_.store(heat - 1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_hot() const { return heat_.load(std::memory_order_relaxed) > 0; }
  [[nodiscard]] bool is_empty() const { return bytes() == 0; }
  [[nodiscard]] uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  // The last one of that size and stream.
  [[nodiscard]] bool take(uint64_t size_bytes, StreamHandle stream, Entry* entry);
  // False where there is no room.
  [[nodiscard]] bool put(const Entry& entry, uint64_t most_bytes);
  [[nodiscard]] std::vector<Entry> clear();

 private:
  static constexpr uint32_t kHottest = 64;
  static constexpr uint32_t kBins = 256;
  static constexpr uint32_t kDepth = 32;
  struct Bin {
    uint64_t size_bytes = 0;  // 0: unused
    StreamHandle stream = 0;
    uint32_t count = 0;
    std::array<Entry, kDepth> entries;
  };
  [[nodiscard]] Bin* find(uint64_t size_bytes, StreamHandle stream);

  std::atomic<uint32_t> heat_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> count_{0};
  SpinLock lock_;
  std::vector<Bin> bins_;
  uint32_t bins_used_ = 0;
};

}  // namespace vram::pool
