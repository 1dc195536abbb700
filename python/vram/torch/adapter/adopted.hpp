// Adopted: blocks of PyTorch's own allocator that carry our deleter, and the deleter that each of
// them had.
//
// PyTorch compares a tensor's deleter with the current allocator's raw_deleter(), so all blocks
// carry ours. The native allocator has two of its own: one gives a block back to its cache, the
// other one gives it to cudaFree, and its raw_delete() chooses by whether it is switched on *now*
// (torch.cuda.caching_allocator_enable). A block must go back by the one that it was handed out
// with, so that is kept here.
//
// Any thread may call. An address is taken out before its deleter runs: right after, the native
// allocator may hand out the same address to another thread.
#pragma once

#include <array>
#include <c10/util/UniqueVoidPtr.h>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace vram_torch {

class Adopted {
 public:
  void put(void* address, c10::DeleterFnPtr deleter) {
    Shard& shard = shard_of(address);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    shard.deleters[address] = deleter;
  }
  // nullptr: it is not here.
  c10::DeleterFnPtr take(void* address) {
    Shard& shard = shard_of(address);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.deleters.find(address);
    if (found == shard.deleters.end()) return nullptr;
    const c10::DeleterFnPtr deleter = found->second;
    shard.deleters.erase(found);
    return deleter;
  }
  c10::DeleterFnPtr find(void* address) {
    Shard& shard = shard_of(address);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.deleters.find(address);
    return found != shard.deleters.end() ? found->second : nullptr;
  }

 private:
  static constexpr size_t kShards = 64;
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<void*, c10::DeleterFnPtr> deleters;
  };
  // Blocks are aligned to 512 bytes, large ones to 2 MiB: both sorts spread over the shards.
  Shard& shard_of(const void* address) {
    const auto value = reinterpret_cast<uintptr_t>(address);
    return shards_[(value >> 9 ^ value >> 21) % kShards];
  }

  std::array<Shard, kShards> shards_;
};

}  // namespace vram_torch
