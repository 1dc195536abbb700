// Pools: vram's pool of each device, opened at the device's first allocation and kept open.
//
// Stands between PoolAllocator and the C library (vram/vram.h). A device for which no pool can be
// opened is left to PyTorch's own allocator, with one warning. Any thread may call anything; the
// lock is taken at a device's first use, and where captures begin and end.
//
// Pools are notified of a capture before it begins and until it has ended, all of them, those
// included that are opened meanwhile: whoever calls the library then (another thread, CuPy, C) does
// not wait for the device, which would break the capture. A pool that is opened after a capture has
// ended is told that there was one.
#pragma once

#include "strict.hpp"

#include <array>
#include <atomic>
#include <c10/core/Device.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cstdint>
#include <mutex>
#include <vram/vram.h>

namespace vram_torch {

using c10::DeviceIndex;

constexpr int kMaxDevices = 64;

class Pools {
 public:
  // For each device, open or not yet; 0: none.
  void set_limit(uint64_t limit_bytes) {
    limit_bytes_ = limit_bytes;
    for_each([&](int, vram_pool* pool) { (void)vram_limit(pool, limit_bytes); });
  }
  uint64_t limit_bytes() const { return limit_bytes_; }

  // The device's pool; NULL where there can't be one.
  vram_pool* of(DeviceIndex device) {
    if (device < 0 || device >= kMaxDevices) return nullptr;
    Slot& slot = slots_[device];
    vram_pool* pool = slot.pool.load(std::memory_order_acquire);
    if (pool != nullptr || slot.is_refused.load(std::memory_order_relaxed)) return pool;
    return open(device, slot);
  }

  template <class Visit>
  void for_each(Visit visit) const {
    const int count = opened_count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i)
      visit(opened_[i], slots_[opened_[i]].pool.load(std::memory_order_relaxed));
  }

  // NULL: none was opened.
  vram_pool* opened(DeviceIndex device) const {
    if (device < 0 || device >= kMaxDevices) return nullptr;
    return slots_[device].pool.load(std::memory_order_acquire);
  }
  bool is_any_open() const { return opened_count_.load(std::memory_order_acquire) > 0; }

  void begin_capture() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++captures_;
    ++begins_;
    announce_captures();
  }
  void end_capture() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --captures_;
    announce_captures();
  }

  // How many captures have begun so far.
  uint64_t begins() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return begins_;
  }
  // For a thread that has seen that of so many begun captures none is going on: the pools may wait
  // until stop_waiting(), or the next begin. False: one has begun since.
  bool start_waiting(uint64_t begins) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (begins != begins_) return false;
    ++waiters_;
    begins_without_capture_ = begins;
    announce_captures();
    return true;
  }
  void stop_waiting() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --waiters_;
    announce_captures();
  }

  // Frees a block; false: none of the pools has it.
  bool free(void* block) const {
    return find_owner([block](vram_pool* pool) { return vram_free(pool, block) == VRAM_OK; }) >= 0;
  }

  // The device of the live block that holds the address; -1: none does.
  int find(const void* address, vram_block_info* info) const {
    return find_owner(
        [&](vram_pool* pool) { return vram_find_block(pool, address, info) == VRAM_OK; });
  }

 private:
  struct Slot {
    std::atomic<vram_pool*> pool{nullptr};
    std::atomic<bool> is_refused{false};
  };

  // Asks the pools whose the block is, the current device's first; the answer's device, or -1.
  template <class Claims>
  int find_owner(Claims claims) const {
    const int count = opened_count_.load(std::memory_order_acquire);
    DeviceIndex current = count == 1 ? opened_[0] : DeviceIndex{-1};
    if (count > 1) (void)c10::cuda::GetDevice(&current);
    if (vram_pool* pool = opened(current); pool != nullptr && claims(pool)) return current;
    for (int i = 0; i < count; ++i)
      if (opened_[i] != current && claims(opened(opened_[i]))) return opened_[i];
    return -1;
  }

  vram_pool* open(DeviceIndex device, Slot& slot) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (vram_pool* pool = slot.pool.load(std::memory_order_acquire)) return pool;
    vram_pool_options options{};
    options.struct_bytes = sizeof options;
    options.limit_bytes = limit_bytes_;
    vram_pool* pool = nullptr;
    if (vram_pool_open(device, &options, &pool) == VRAM_OK) {
      announce_open_captures(pool);
      enable_peers(device, pool);
      const int count = opened_count_.load(std::memory_order_relaxed);
      slot.pool.store(pool, std::memory_order_release);
      opened_[count] = device;
      opened_count_.store(count + 1, std::memory_order_release);
    } else if (!slot.is_refused.exchange(true)) {
      warn_not_set_up("no pool on cuda:", static_cast<int>(device),
                      ", PyTorch's own allocator serves it: ", vram_last_error());
    }
    return pool;
  }

  // With the mutex held. Graphs that were captured earlier may be launched at any time: beside
  // launches the pool makes no stream wait (docs/pool.md).
  void announce_open_captures(vram_pool* pool) const {
    if (begins_ == 0) return;
    (void)vram_begin_capture(pool);
    if (!is_capture_announced_) (void)vram_end_capture(pool);
  }

  // With the mutex held. Waits for a pool that waits for the device: a capture begins after that.
  void announce_captures() {
    const bool is_uncertain = waiters_ > 0 && begins_ == begins_without_capture_;
    const bool announces = captures_ > 0 && !is_uncertain;
    if (announces == is_capture_announced_) return;
    is_capture_announced_ = announces;
    for_each([announces](int, vram_pool* pool) {
      (void)(announces ? vram_begin_capture(pool) : vram_end_capture(pool));
    });
  }

  // PyTorch enables access between two devices once, at the first copy, and keeps the answer to
  // itself; a copy from before vram came can't be seen. But it needed a context on both devices,
  // so whoever has one now may have been let in. Later ones come by enable_peer_access().
  static void enable_peers(DeviceIndex device, vram_pool* pool) {
    const DeviceIndex count = c10::cuda::device_count();
    for (DeviceIndex peer = 0; peer < count; ++peer) {
      if (peer != device && c10::cuda::hasPrimaryContext(peer)) (void)vram_enable_peer(pool, peer);
    }
  }

  std::array<Slot, kMaxDevices> slots_;
  std::array<DeviceIndex, kMaxDevices> opened_{};  // in the order in which they were opened
  std::atomic<int> opened_count_{0};
  std::atomic<uint64_t> limit_bytes_{0};
  mutable std::mutex mutex_;  // of opening, and of all below
  int captures_ = 0;          // begun and not ended
  uint64_t begins_ = 0;
  int waiters_ = 0;
  uint64_t begins_without_capture_ = 0;  // while there are waiters
  bool is_capture_announced_ = false;    // the open pools, that there is a capture
};

}  // namespace vram_torch
