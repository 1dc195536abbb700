// PrivatePools: which requests PyTorch wants in a memory pool of its own (a CUDA graph's, a
// MemPool's), and what must not be done while a graph is captured.
//
// Between beginAllocateToPool and endAllocateToPool a filter says which streams (or which thread)
// it is about; a copy of it is kept here. While a stream is captured, frees of its own blocks are
// put off: nobody can tell when it is done with them, and the pool would join them with memory that
// others may use. All other frees go to the pool at once, which itself keeps what a captured stream
// uses besides (record_stream), and marks nothing in such a stream.
//
// is_quiet() is one atomic load, all that the hot path pays. Everything else takes the lock, except
// for the two switches that send every request to PyTorch's allocator: vram.disable(), and
// torch.cuda.caching_allocator_enable(False).
// Filters are called with the lock held, as PyTorch's own allocator calls them with its device lock
// held; no pool is called with it held.
#pragma once

#include <algorithm>
#include <atomic>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <chrono>
#include <cuda_runtime_api.h>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace vram_torch {

using c10::cuda::MempoolId_t;
using StreamFilter = std::function<bool(cudaStream_t)>;

// While it lives, calls that CUDA forbids during a capture by default are allowed to this thread:
// they touch nothing that is captured.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

inline bool is_captured(cudaStream_t stream) {
  if (stream == nullptr) return false;  // the default stream can't be
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

class PrivatePools {
 public:
  // Nothing here concerns any request.
  bool is_quiet() const { return concerns_.load(std::memory_order_relaxed) == 0; }

  void begin(c10::DeviceIndex device, MempoolId_t id, StreamFilter filter, cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    active_.push_back({device, id, std::move(filter), stream, Clock::now()});
    ++concerns_;
  }

  // False: it was not begun here.
  bool end(c10::DeviceIndex device, MempoolId_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto is_it = [&](const Active& active) {
      return active.device == device && active.id == id;
    };
    const auto found = std::find_if(active_.rbegin(), active_.rend(), is_it);
    if (found == active_.rend()) return false;
    active_.erase(std::next(found).base());
    --concerns_;
    return true;
  }

  bool accept(c10::DeviceIndex device, cudaStream_t stream) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(active_.begin(), active_.end(), [&](const Active& active) {
      return active.device == device && active.filter(stream);
    });
  }

  bool is_capturing() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return is_capturing_locked();
  }
  // PyTorch begins to capture right after it has begun with the private pool. For a while it is not
  // known whether it will.
  bool may_be_capturing() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_begin_locked() + kUntilCapture > Clock::now() || is_capturing_locked();
  }
  void wait_until_it_is_known() const {
    std::this_thread::sleep_until([this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return last_begin_locked() + kUntilCapture;
    }());
  }

  // True if the free of the stream's block is put off; take_back() returns it when nothing is
  // captured any more.
  bool defer_free(void* block, cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_capturing_locked() || !is_captured(stream)) return false;
    put_off_.push_back(block);
    ++concerns_;
    return true;
  }

  std::vector<void*> take_back() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (put_off_.empty() || is_capturing_locked()) return {};
    concerns_ -= static_cast<int>(put_off_.size());
    return std::exchange(put_off_, {});
  }

  // PyTorch's allocator was switched off (torch.cuda.caching_allocator_enable): everything is for
  // it to decide.
  void set_bypassed(bool bypassed) { set(is_bypassed_, bypassed); }
  // The program went back to PyTorch's allocator (vram.disable).
  void set_disabled(bool disabled) { set(is_disabled_, disabled); }
  bool is_disabled() const { return is_disabled_.load(std::memory_order_relaxed); }
  bool is_all_native() const {
    return is_disabled() || is_bypassed_.load(std::memory_order_relaxed);
  }

 private:
  using Clock = std::chrono::steady_clock;
  // A thread that is descheduled between the two calls takes a few milliseconds.
  static constexpr std::chrono::milliseconds kUntilCapture{20};

  struct Active {
    c10::DeviceIndex device;
    MempoolId_t id;
    StreamFilter filter;
    cudaStream_t stream;  // current when it began: the one that a graph is captured in
    Clock::time_point begin;
  };

  void set(std::atomic<bool>& flag, bool value) {
    if (flag.exchange(value) != value) concerns_ += value ? 1 : -1;
  }
  Clock::time_point last_begin_locked() const {
    return active_.empty() ? Clock::time_point() : active_.back().begin;
  }
  bool is_capturing_locked() const {
    return std::any_of(active_.begin(), active_.end(),
                       [](const Active& active) { return is_captured(active.stream); });
  }

  mutable std::mutex mutex_;
  std::vector<Active> active_;
  std::vector<void*> put_off_;
  std::atomic<int> concerns_{0};
  std::atomic<bool> is_bypassed_{false};
  std::atomic<bool> is_disabled_{false};
};

}  // namespace vram_torch
