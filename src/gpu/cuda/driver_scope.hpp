// What a thread needs around a call to the driver, and gets back as it was: a current context, and
// leave to make calls that a CUDA graph being captured anywhere in the process would forbid.
//
// Constructed and destroyed by one thread; neither allocates nor locks.
#pragma once

#include "gpu/cuda/driver.hpp"
#include "gpu/memory.hpp"

namespace vram::gpu::cuda {

// NOLINTNEXTLINE(performance-no-int-to-ptr): streams are pointers to CUDA, numbers to us
inline CUstream as_stream(StreamHandle stream) { return reinterpret_cast<CUstream>(stream); }

// The context is current while this lives. Nearly free where it is current already.
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

// While a stream is captured in CUDA's default mode, memory calls of every thread fail and spoil
// the capture, unless their thread says that it knows what it does.
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
  CUcaptureMode mode_ = kCaptureRelaxed;  // between the two calls: what it was before
  bool is_exchanged_ = false;
};

}  // namespace vram::gpu::cuda
