// OomObservers: the observers of out-of-memory errors, whichever allocator they come from.
//
// They are attached here and not to the native allocator, which calls its observers before it
// throws: an error that is cured (the pool gives memory up, the request is tried again) would be
// observed all the same. The native allocator has one observer of ours instead, and what it
// reports while a HeldOom lives is observed only if that says so. Any thread.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace vram_torch {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;

struct Oom {
  int64_t device = 0;
  size_t bytes = 0;
  size_t total_bytes = 0;
  size_t free_bytes = 0;
};

// While it lives, the native allocator's errors in this thread wait.
class HeldOom {
 public:
  HeldOom() : outer_(std::exchange(current_, this)) {}
  ~HeldOom() { current_ = outer_; }
  HeldOom(const HeldOom&) = delete;
  HeldOom& operator=(const HeldOom&) = delete;

  static HeldOom* current() { return current_; }
  void hold(const Oom& oom) { ooms_.push_back(oom); }
  const std::vector<Oom>& ooms() const { return ooms_; }

 private:
  inline static thread_local HeldOom* current_ = nullptr;
  HeldOom* outer_;
  std::vector<Oom> ooms_;
};

class OomObservers {
 public:
  void add(torch_cuda::OutOfMemoryObserver observer, torch_cuda::CUDAAllocator& native) {
    const std::lock_guard<std::mutex> lock(mutex_);
    observers_.push_back(std::move(observer));
    if (std::exchange(is_attached_, true)) return;
    native.attachOutOfMemoryObserver(
        [this](int64_t device, size_t bytes, size_t total_bytes, size_t free_bytes) {
          const Oom oom{device, bytes, total_bytes, free_bytes};
          if (HeldOom* const held = HeldOom::current()) return held->hold(oom);
          observe(oom);
        });
  }

  void observe(const Oom& oom) {
    std::vector<torch_cuda::OutOfMemoryObserver> observers;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      observers = observers_;
    }
    for (const auto& observer : observers)
      observer(oom.device, oom.bytes, oom.total_bytes, oom.free_bytes);
  }

 private:
  std::mutex mutex_;  // not held while observers run
  std::vector<torch_cuda::OutOfMemoryObserver> observers_;
  bool is_attached_ = false;
};

}  // namespace vram_torch
