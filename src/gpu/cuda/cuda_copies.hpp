// CudaCopies: copies to and from one CUDA device's memory, as gpu::Copies (copies.hpp). Used next
// to a CudaMemory of the same device; both use its primary context.
//
// May be called from any thread, with any context current or none. Takes no locks and allocates
// nothing.
#pragma once

#include "base/result.hpp"
#include "gpu/copies.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/cuda/driver_types.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace vram::gpu::cuda {

// CopyApi: the functions of the CUDA driver that copy memory and name devices, as a table
// (driver.hpp has the rest). Allocators do not load it.
//
// Names are those of cuda.h without "cu"; where cuda.h maps a name to a newer version, it is that
// version. Functions with streams use the legacy default stream (without _ptsz), as DriverApi's do.

struct CopyApi {
  CUresult (*mem_host_alloc)(void** host, size_t bytes, unsigned flags) = nullptr;
  CUresult (*mem_free_host)(void* host) = nullptr;
  CUresult (*stream_create)(CUstream* stream, unsigned flags) = nullptr;
  CUresult (*stream_destroy)(CUstream stream) = nullptr;
  CUresult (*memcpy_htod_async)(CUdeviceptr to, const void* from, size_t bytes,
                                CUstream stream) = nullptr;
  CUresult (*memcpy_dtoh_async)(void* to, CUdeviceptr from, size_t bytes,
                                CUstream stream) = nullptr;
  CUresult (*memcpy_dtod_async)(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                CUstream stream) = nullptr;
  CUresult (*memset_d32_async)(CUdeviceptr to, unsigned word, size_t words,
                               CUstream stream) = nullptr;
  CUresult (*device_get_name)(char* name, int size, CUdevice device) = nullptr;
  CUresult (*device_get_uuid)(CUuuid* uuid, CUdevice device) = nullptr;
  CUresult (*device_get_pci_bus_id)(char* id, int size, CUdevice device) = nullptr;

  // Uses the library that DriverApi has loaded. kUnsupported: a function is missing; the message
  // names it.
  [[nodiscard]] static Result<CopyApi> load(const std::string& path = "libcuda.so.1");
};

// The driver's names of a device; empty if unknown.
struct DeviceNames {
  std::string name;
  std::string uuid;    // "GPU-…", as NVML writes it
  std::string pci_id;  // "0000:19:00.0"
};

[[nodiscard]] DeviceNames names_of(const CopyApi& api, CUdevice device);

class CudaCopies final : public Copies {
 public:
  // driver must outlive it. kUnsupported: the device can't be used now.
  [[nodiscard]] static Result<std::unique_ptr<CudaCopies>> open(const DriverApi& driver,
                                                                const CopyApi& api,
                                                                uint32_t ordinal);
  // Releases the context; pinned memory and created streams are released with the process.
  ~CudaCopies() override;

  // As CudaMemory's.
  [[nodiscard]] CUresult last_failure() const {
    return last_failure_.load(std::memory_order_relaxed);
  }

  // Copies: see copies.hpp. Calls about a device other than the one it was opened for are
  // kInvalidValue.
  [[nodiscard]] Status pin(uint64_t bytes, void** host) override;
  [[nodiscard]] Status unpin(void* host) override;
  [[nodiscard]] Status create_stream(uint32_t device, StreamHandle* stream) override;
  [[nodiscard]] Status destroy_stream(StreamHandle stream) override;
  [[nodiscard]] Status copy_in(uint32_t device, StreamHandle stream, Address to, const void* from,
                               uint64_t bytes) override;
  [[nodiscard]] Status copy_out(uint32_t device, StreamHandle stream, void* to, Address from,
                                uint64_t bytes) override;
  [[nodiscard]] Status copy(uint32_t device, StreamHandle stream, Address to, Address from,
                            uint64_t bytes) override;
  [[nodiscard]] Status fill(uint32_t device, StreamHandle stream, Address to, uint32_t word,
                            uint64_t bytes) override;

 private:
  CudaCopies(const DriverApi& driver, const CopyApi& api, uint32_t ordinal)
      : driver_(driver), api_(api), ordinal_(ordinal) {}
  template <typename Call>
  [[nodiscard]] Status run(Call call);
  template <typename Call>
  [[nodiscard]] Status run_on(uint32_t device, Call call);

  const DriverApi& driver_;
  CopyApi api_;
  uint32_t ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::atomic<CUresult> last_failure_{kSuccess};
};

}  // namespace vram::gpu::cuda
