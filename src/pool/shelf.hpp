// Shelf: freed blocks that a thread keeps for its own next requests of the same size and stream, so
// that it need not meet others at the pool. Only where threads compete (SharedPool decides): a
// block on a shelf can't be joined to its neighbours. Bounded in bytes and in sizes. Any thread;
// takes no other lock; allocates at its first use.
#pragma once

#include "base/spin_lock.hpp"
#include "pool/ledger.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace vram::pool {

class alignas(64) Shelf {
 public:
  // What lies there, and what was taken from it so far.
  struct Counts {
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    uint64_t taken_blocks = 0;
    uint64_t taken_bytes = 0;
  };

  // Threads meet at the pool, or one comes there and meets nobody.
  void met_others() { heat_.store(kHottest, std::memory_order_relaxed); }
  void met_nobody() {
    const uint32_t heat = heat_.load(std::memory_order_relaxed);
    if (heat > 0) heat_.store(heat - 1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_hot() const { return heat_.load(std::memory_order_relaxed) > 0; }
  [[nodiscard]] bool is_empty() const { return is_empty_.load(std::memory_order_relaxed); }

  // The last one of that size and stream, which lives again; nullptr where there is none.
  [[nodiscard]] Entry* take(uint64_t size_bytes, StreamHandle stream);
  // False where there is no room, or where it does not live.
  [[nodiscard]] bool put(Entry* entry, uint64_t most_bytes);
  // All that lies there, as a list.
  [[nodiscard]] Entry* clear();
  [[nodiscard]] Counts counts();
  void reset_taken();

 private:
  static constexpr uint32_t kHottest = 256;
  static constexpr uint32_t kBinsLog2 = 10;
  static constexpr uint32_t kBins = 1 << kBinsLog2;
  struct Bin {
    uint64_t size_bytes = 0;  // 0: unused
    StreamHandle stream = 0;
    Entry* last = nullptr;
  };
  [[nodiscard]] Bin& find(uint64_t size_bytes, StreamHandle stream);

  std::atomic<uint32_t> heat_{0};
  std::atomic<bool> is_empty_{true};
  SpinLock lock_;
  uint32_t bins_used_ = 0;
  std::vector<Bin> bins_;
  Counts counts_;
};

}  // namespace vram::pool
