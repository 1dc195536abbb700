// Ledger: which block lies at an address, for callers who name blocks by address. An entry stays
// where it is as long as its block, on a shelf, too: a thread that knows it needs no lock to read
// it. Entries come and go under the pool's lock alone; find() needs none, but while they do it may
// miss one. Allocates when there were never as many blocks.
#pragma once

#include "pool/pool.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace vram::pool {

enum class EntryState : uint8_t { kGone, kLive, kShelved };

// One block: a line of the cache, so that threads don't meet in it.
struct alignas(64) Entry {
  std::atomic<Address> address{0};
  BlockId block;
  uint64_t size_bytes = 0;
  StreamHandle stream = 0;
  Entry* next = nullptr;               // in a list of such
  uint32_t shelf = 0;                  // of the thread that asked for it
  std::atomic<bool> is_shared{false};  // other streams use it, too
  std::atomic<EntryState> state{EntryState::kGone};

  [[nodiscard]] bool is_live() const {
    return state.load(std::memory_order_relaxed) == EntryState::kLive;
  }
};

class Ledger {
 public:
  Ledger();

  // Under the pool's lock: a live block, of whose address there is no entry.
  void add(const Allocation& block, uint64_t size_bytes, StreamHandle stream, uint32_t shelf);
  // Under the pool's lock.
  void remove(Entry* entry);
  // The entry of that address, live or on a shelf; nullptr where there is none. Any thread; sure to
  // find it under the pool's lock.
  [[nodiscard]] Entry* find(Address address) const;

 private:
  using Slot = std::atomic<Entry*>;
  // Open addressing with linear probing, at most a quarter full.
  struct Table {
    explicit Table(uint32_t log2) : shift(64 - log2), mask((size_t{1} << log2) - 1) {
      slots = std::make_unique<Slot[]>(mask + 1);
    }
    // Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
    [[nodiscard]] size_t home(Address address) const {
      return (address >> 9) * 0x9e37'79b9'7f4a'7c15 >> shift;
    }
    void insert(Entry* entry);
    void close_gap(size_t gap);

    uint32_t shift;
    size_t mask;
    std::unique_ptr<Slot[]> slots;
  };
  void grow();

  std::atomic<Table*> table_{nullptr};
  std::deque<Entry> entries_;
  Entry* spare_ = nullptr;
  size_t used_ = 0;
  std::vector<std::unique_ptr<Table>> tables_;  // former ones, too: a thread may be reading in them
};

}  // namespace vram::pool
