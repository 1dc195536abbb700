// SharedPool: a Pool for all threads of a process, with blocks named by address: what the C library
// (capi/) hands out. Every function may be called from any thread.
//
//     allocate ──▶ own shelf (where threads compete) ──▶ lock ──▶ Pool, blocks by address
//     free ──▶ own shelf (where threads compete) ──▶ lock ──▶ blocks by address, Pool; or
//     another's shelf
//
// One thread alone always meets the pool itself, whose placement is the best there is. When threads
// meet at its lock again and again, the pool lends each of them memory, which its shelf (shelf.hpp)
// cuts into blocks without the pool: as much as it needs, and some to spare, so that in the end no
// thread visits the pool any more. That costs memory; when it is short, or the competition
// has been over for a while, all that was lent comes back before the pool does anything costly:
// blocks that live are the pool's own from then on, the rest is free. A peak that was passed on
// shelves alone is seen when they are emptied, or when statistics are read. The lock is held across
// calls to the driver: a thread that waits for it would need the driver next.
#pragma once

#include "base/address_map.hpp"
#include "base/spin_lock.hpp"
#include "pool/pool.hpp"
#include "pool/shelf.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace vram::pool {

class SharedPool {
 public:
  // Called without a lock when a request fails; whether it may have freed something.
  using Reclaim = bool (*)(void* owner, uint64_t bytes);

  // device must outlive it.
  explicit SharedPool(Device& device, const Options& options = {});
  // Before the first request.
  void on_oom(Reclaim reclaim, void* owner);

  [[nodiscard]] bool is_ready() const { return pool_.is_ready(); }

  // 0: out of memory.
  [[nodiscard]] Address allocate(uint64_t bytes, StreamHandle stream);
  // False where no live block begins there.
  [[nodiscard]] bool free(Address address);
  [[nodiscard]] bool record_stream(Address address, StreamHandle stream);
  // Waits for nothing.
  void forget(StreamHandle stream);
  [[nodiscard]] BlockInfo block_at(Address address);

  // Waits for the streams that use its memory.
  uint64_t trim(uint64_t bytes);
  void limit(uint64_t bytes);
  [[nodiscard]] Status renew_access();
  // While there are more begins than ends no event is recorded.
  void begin_capture();
  void end_capture();

  [[nodiscard]] Stats stats();
  [[nodiscard]] uint64_t limit_bytes();
  [[nodiscard]] OomFacts last_oom();
  void reset_peaks();
  void reset_sums();
  template <typename Visit>
  void visit(Visit visit) {
    const std::lock_guard guard(lock_);
    (void)collect();
    pool_.visit(visit);
  }
  // Before the first request; the observer must outlive the pool. It is called with the lock held.
  void set_observer(Observer* observer) { pool_.set_observer(observer); }
  // All that there is now.
  void report_all(Observer& observer);
  // Of a live block that is shown elsewhere than at its home; of others, nothing.
  void report_parts(Address address, Observer& observer);
  [[nodiscard]] bool validate(std::string* why = nullptr);
  // As if threads had met at the lock for a while: for tests of what is lent to them.
  void assume_competition();
  // Whether the address is in memory of this pool. Takes the lock only where it is in segments.
  [[nodiscard]] bool owns(Address address);

 private:
  static constexpr uint32_t kShelves = 16;

  void lock_pool();
  [[nodiscard]] Address request(uint64_t bytes, StreamHandle stream, Shelf& shelf);
  [[nodiscard]] bool lend(uint64_t bytes, StreamHandle stream, Shelf& shelf);
  [[nodiscard]] bool free_elsewhere(Address address);
  void count_oom();
  [[nodiscard]] auto taking_back();
  bool collect();
  void collect(Shelf& shelf);
  static void count(const Shelf::Sum& live, const Shelf::Sum& served, Stats* stats);

  // Read by all, seldom written.
  Reclaim reclaim_ = nullptr;
  void* owner_ = nullptr;
  std::array<Shelf, kShelves> shelves_;
  alignas(64) SpinLock lock_;  // of all below
  uint32_t heat_ = 0;          // how much threads compete
  Pool pool_;
  AddressMap blocks_;  // those that are not on shelves: their indexes, by where they begin
  // Since the sums were reset: leases, and live blocks that came back in them.
  uint64_t lends_ = 0;
  Shelf::Sum returned_;
  uint32_t captures_ = 0;
};

}  // namespace vram::pool
