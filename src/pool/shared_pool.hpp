// SharedPool: a Pool for all threads of a process, with blocks named by address: what the C library
// (capi/) hands out. Every function may be called from any thread.
//
//     allocate ──▶ shelf (where threads compete) ──▶ lock ──▶ Pool, ledger
//     free ──▶ ledger, shelf (where threads compete) ──▶ lock ──▶ ledger, Pool
//
// One thread alone always meets the pool itself, whose placement is the best there is. When threads
// meet at its lock, each keeps what it frees on a shelf of its own for a while; what lies there
// comes back before the pool does anything costly. A block lies on the shelf of the thread that
// asked for it, whoever freed it. Until it comes back it counts as active memory, and as allocated
// in the peaks. The lock is held across calls to the driver: whoever waits for it would need the
// driver next.
#pragma once

#include "base/spin_lock.hpp"
#include "pool/ledger.hpp"
#include "pool/pool.hpp"
#include "pool/shelf.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

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
  void forget(StreamHandle stream);
  [[nodiscard]] BlockInfo block_at(Address address);

  // Waits for the device.
  uint64_t trim(uint64_t bytes);
  void limit(uint64_t bytes);
  [[nodiscard]] Status renew_access();
  // While there are more begins than ends the pool does not wait for the device.
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
    collect();
    pool_.visit(visit);
  }
  [[nodiscard]] bool validate(std::string* why = nullptr);
  // Whether the address lies in memory of this pool. Takes the lock only where it is in segments.
  [[nodiscard]] bool owns(Address address);

 private:
  static constexpr uint32_t kShelves = 16;
  // Of the reserved bytes, a shelf may keep this part.
  static constexpr uint64_t kShelfPart = 32;

  [[nodiscard]] Address request(uint64_t bytes, StreamHandle stream, uint32_t shelf);
  [[nodiscard]] bool shelve(Address address);
  void release(Entry* entry);
  void withdraw_oom();
  [[nodiscard]] static uint32_t own_shelf();
  void lock_pool(Shelf& shelf);
  void collect();

  // Seldom written, read by all.
  std::atomic<uint64_t> shelf_bytes_{0};  // that one may keep now
  Reclaim reclaim_ = nullptr;
  void* owner_ = nullptr;
  std::array<Shelf, kShelves> shelves_;
  alignas(64) Ledger ledger_;
  alignas(64) SpinLock lock_;  // of all below, and of the ledger's changes
  Pool pool_;
  uint32_t captures_ = 0;
};

}  // namespace vram::pool
