// Scopes for calls to the driver: a current context, and permission for calls that the capture of a
// CUDA graph anywhere in the process would forbid. Their destructors restore the previous state.
//
// Construct and destroy them on one thread; they neither allocate nor lock.
#pragma once

#include "gpu/cuda/driver.hpp"
#include "gpu/memory.hpp"

namespace vram::gpu::cuda {

// NOLINTNEXTLINE(performance-no-int-to-ptr): streams are pointers to CUDA, numbers to us
inline CUstream as_stream(StreamHandle stream) { return reinterpret_cast<CUstream>(stream); }

// Makes the context current for its lifetime. Almost free if it is current already.
class CurrentContext {
 public:
  CurrentContext(const DriverApi& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    result_ = driver_.ctx_get_current(&current);
    if (result_ != kSuccess || current == context) return;
    result_ = driver_.ctx_push_current(context);
    is_pushed_ = result_ == kSuccess;
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    CUcontext popped = nullptr;
    if (is_pushed_) (void)driver_.ctx_pop_current(&popped);
  }
  // Why it is not current, kSuccess if it is.
  [[nodiscard]] CUresult result() const { return result_; }

 private:
  const DriverApi& driver_;
  CUresult result_ = kSuccess;
  bool is_pushed_ = false;
};

// While a stream is captured in CUDA's default mode, memory calls from any thread fail and
// invalidate the capture, unless the thread has selected the relaxed mode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver) : driver_(driver) {
    is_exchanged_ = driver_.thread_exchange_stream_capture_mode(&mode_) == kSuccess;
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (is_exchanged_) (void)driver_.thread_exchange_stream_capture_mode(&mode_);
  }

 private:
  const DriverApi& driver_;
  // After the first exchange: the previous mode.
  CUcaptureMode mode_ = kCaptureRelaxed;
  bool is_exchanged_ = false;
};

}  // namespace vram::gpu::cuda
