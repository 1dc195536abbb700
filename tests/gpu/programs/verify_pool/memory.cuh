// What the programs of verify_pool allocate from: a pool of libvram, or an allocator with a known
// error, which proves that such an error is found.
#pragma once

#include "vram/vram.h"

#include <cuda_runtime.h>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// A wrong allocator, by the value of VERIFY_BREAK:
//   free     a freed block serves any stream at once, whatever is queued
//   record   a freed block serves its own stream at once, whatever other streams have queued
//   capture  waits for the device at each free: nothing is overwritten, but captures break
// It cuts one piece of memory into powers of two and never gives any back, so its errors are no
// illegal addresses.
class WrongAllocator {
 public:
  WrongAllocator(std::string error, size_t capacity)
      : error_(std::move(error)), capacity_(capacity) {}
  cudaError_t start() { return cudaMalloc(&arena_, capacity_); }

  vram_status alloc(size_t bytes, cudaStream_t stream, void** block) {
    size_t rounded = 512;
    while (rounded < bytes) rounded *= 2;
    const Key key{error_ == "free" ? nullptr : stream, rounded};
    const std::lock_guard<std::mutex> guard(lock_);
    std::vector<void*>& free = free_[key];
    *block = nullptr;
    if (!free.empty()) {
      *block = free.back();
      free.pop_back();
    } else if (rounded <= capacity_ - used_) {
      *block = static_cast<char*>(arena_) + used_;
      used_ += rounded;
    }
    if (*block == nullptr) return VRAM_OUT_OF_MEMORY;
    live_[*block] = key;
    return VRAM_OK;
  }
  vram_status free(void* block) {
    if (error_ == "capture") (void)cudaDeviceSynchronize();
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = live_.find(block);
    if (found == live_.end()) return VRAM_INVALID_VALUE;
    free_[found->second].push_back(block);
    live_.erase(found);
    return VRAM_OK;
  }

 private:
  using Key = std::pair<cudaStream_t, size_t>;
  std::string error_;
  size_t capacity_;
  void* arena_ = nullptr;
  std::mutex lock_;
  size_t used_ = 0;
  std::map<Key, std::vector<void*>> free_;
  std::map<void*, Key> live_;
};

// One device's. Exactly one of the two is set.
struct Memory {
  vram_pool* pool = nullptr;
  WrongAllocator* wrong = nullptr;

  vram_status alloc(size_t bytes, cudaStream_t stream, void** block) const {
    return pool != nullptr ? vram_alloc(pool, bytes, stream, block)
                           : wrong->alloc(bytes, stream, block);
  }
  vram_status free(void* block) const {
    return pool != nullptr ? vram_free(pool, block) : wrong->free(block);
  }
  vram_status record_stream(void* block, cudaStream_t stream) const {
    return pool != nullptr ? vram_record_stream(pool, block, stream) : VRAM_OK;
  }
  vram_status forget_stream(cudaStream_t stream) const {
    return pool != nullptr ? vram_forget_stream(pool, stream) : VRAM_OK;
  }
};
