// DriverApi: the CUDA driver as a table of functions, loaded at run time, so that the program also
// runs on a machine without a GPU. CudaMemory uses it.
//
//     dlopen ──▶ dlsym for each ──▶ cuInit ──▶ DriverApi ──▶ cuda_memory
//
// Once loaded, the library stays open until the process ends, since a driver does not survive
// dlclose. May be loaded and called from any thread; the table is immutable.
#pragma once

#include "base/result.hpp"
#include "gpu/cuda/driver_types.hpp"
#include "gpu/memory.hpp"

#include <string>

namespace vram::gpu::cuda {

// The library to load: the one that the environment variable VRAM_CUDA_DRIVER names (for tests on
// machines without a GPU), else the system's.
[[nodiscard]] std::string driver_path();

struct DriverApi {
  // Names as in cuda.h, less the cu; where cuda.h maps a name to a newer version, it is that one.
  CUresult (*init)(unsigned flags) = nullptr;
  CUresult (*get_error_name)(CUresult error, const char** name) = nullptr;
  CUresult (*device_get)(CUdevice* device, int ordinal) = nullptr;
  CUresult (*device_get_count)(int* count) = nullptr;
  CUresult (*device_get_attribute)(int* value, CUattribute attribute, CUdevice device) = nullptr;
  CUresult (*device_total_mem)(size_t* bytes, CUdevice device) = nullptr;
  CUresult (*device_can_access_peer)(int* can, CUdevice device, CUdevice peer) = nullptr;
  CUresult (*device_primary_ctx_retain)(CUcontext* context, CUdevice device) = nullptr;
  CUresult (*device_primary_ctx_release)(CUdevice device) = nullptr;

  CUresult (*ctx_get_current)(CUcontext* context) = nullptr;
  CUresult (*ctx_push_current)(CUcontext context) = nullptr;
  CUresult (*ctx_pop_current)(CUcontext* context) = nullptr;
  CUresult (*ctx_synchronize)() = nullptr;

  CUresult (*mem_get_info)(size_t* free, size_t* total) = nullptr;
  CUresult (*mem_alloc)(CUdeviceptr* address, size_t bytes) = nullptr;
  CUresult (*mem_free)(CUdeviceptr address) = nullptr;
  CUresult (*mem_get_allocation_granularity)(size_t* bytes, const CUmemAllocationProp* prop,
                                             CUmemGranularity option) = nullptr;
  CUresult (*mem_address_reserve)(CUdeviceptr* address, size_t bytes, size_t alignment,
                                  CUdeviceptr hint, unsigned long long flags) = nullptr;
  CUresult (*mem_address_free)(CUdeviceptr address, size_t bytes) = nullptr;
  CUresult (*mem_create)(CUmemHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
                         unsigned long long flags) = nullptr;
  CUresult (*mem_release)(CUmemHandle handle) = nullptr;
  CUresult (*mem_map)(CUdeviceptr address, size_t bytes, size_t offset, CUmemHandle handle,
                      unsigned long long flags) = nullptr;
  CUresult (*mem_set_access)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* accesses,
                             size_t count) = nullptr;
  CUresult (*mem_unmap)(CUdeviceptr address, size_t bytes) = nullptr;

  CUresult (*event_create)(CUevent* event, unsigned flags) = nullptr;
  CUresult (*event_record)(CUevent event, CUstream stream) = nullptr;
  CUresult (*event_query)(CUevent event) = nullptr;
  CUresult (*event_synchronize)(CUevent event) = nullptr;
  CUresult (*event_destroy)(CUevent event) = nullptr;
  CUresult (*stream_wait_event)(CUstream stream, CUevent event, unsigned flags) = nullptr;
  CUresult (*stream_is_capturing)(CUstream stream, CUcaptureStatus* status) = nullptr;
  CUresult (*stream_get_ctx)(CUstream stream, CUcontext* context) = nullptr;
  CUresult (*thread_exchange_stream_capture_mode)(CUcaptureMode* mode) = nullptr;

  // kNotFound: no such library, or no device that it can use. kUnsupported: the library is no
  // driver, is too old, or does not work on this machine. The message has the details.
  [[nodiscard]] static Result<DriverApi> load(const std::string& path = "libcuda.so.1");

  // "CUDA_ERROR_OUT_OF_MEMORY (2)".
  [[nodiscard]] std::string name_of(CUresult error) const;
};

// Converts a result of the driver to a Status. What the driver refuses during the capture of a CUDA
// graph is kNotReady: the call may be repeated after the capture.
[[nodiscard]] Status status_of(CUresult result);
// After such an answer the process's work on the device is lost, and every later answer is void.
[[nodiscard]] bool is_device_lost(CUresult result);

// Scopes for calls to the driver: a current context, and permission for calls that the capture of a
// CUDA graph anywhere in the process would forbid. Their destructors restore the previous state.
//
// Construct and destroy them on one thread; they neither allocate nor lock.

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
