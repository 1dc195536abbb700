#include "gpu/cuda/driver.hpp"

#include "base/environment.hpp"
#include "gpu/symbols.hpp"

#include <dlfcn.h>
#include <string_view>

namespace vram::gpu::cuda {
namespace {

void find_devices(Symbols& symbols, DriverApi& api) {
  symbols.find("cuInit", api.init);
  symbols.find("cuGetErrorName", api.get_error_name);
  symbols.find("cuDeviceGet", api.device_get);
  symbols.find("cuDeviceGetCount", api.device_get_count);
  symbols.find("cuDeviceGetAttribute", api.device_get_attribute);
  symbols.find("cuDeviceTotalMem_v2", api.device_total_mem);
  symbols.find("cuDeviceCanAccessPeer", api.device_can_access_peer);
  symbols.find("cuDevicePrimaryCtxRetain", api.device_primary_ctx_retain);
  symbols.find("cuDevicePrimaryCtxRelease_v2", api.device_primary_ctx_release);
  symbols.find("cuCtxGetCurrent", api.ctx_get_current);
  symbols.find("cuCtxPushCurrent_v2", api.ctx_push_current);
  symbols.find("cuCtxPopCurrent_v2", api.ctx_pop_current);
  symbols.find("cuCtxSynchronize", api.ctx_synchronize);
}

void find_memory(Symbols& symbols, DriverApi& api) {
  symbols.find("cuMemGetInfo_v2", api.mem_get_info);
  symbols.find("cuMemAlloc_v2", api.mem_alloc);
  symbols.find("cuMemFree_v2", api.mem_free);
  symbols.find("cuMemGetAllocationGranularity", api.mem_get_allocation_granularity);
  symbols.find("cuMemAddressReserve", api.mem_address_reserve);
  symbols.find("cuMemAddressFree", api.mem_address_free);
  symbols.find("cuMemCreate", api.mem_create);
  symbols.find("cuMemRelease", api.mem_release);
  symbols.find("cuMemMap", api.mem_map);
  symbols.find("cuMemSetAccess", api.mem_set_access);
  symbols.find("cuMemUnmap", api.mem_unmap);
}

void find_streams(Symbols& symbols, DriverApi& api) {
  symbols.find("cuEventCreate", api.event_create);
  symbols.find("cuEventRecord", api.event_record);
  symbols.find("cuEventQuery", api.event_query);
  symbols.find("cuEventSynchronize", api.event_synchronize);
  symbols.find("cuEventDestroy_v2", api.event_destroy);
  symbols.find("cuStreamWaitEvent", api.stream_wait_event);
  symbols.find("cuStreamIsCapturing", api.stream_is_capturing);
  symbols.find("cuStreamGetCtx", api.stream_get_ctx);
  symbols.find("cuThreadExchangeStreamCaptureMode", api.thread_exchange_stream_capture_mode);
}

std::string_view advice_for(CUresult error) {
  switch (error) {
    case kErrorNoDevice:
      return "make a GPU visible to this process (CUDA_VISIBLE_DEVICES, the container's options)";
    case kErrorSystemDriverMismatch:
      return "the library and the kernel module have different versions: reboot, or reinstall the "
             "driver";
    default:
      return "run nvidia-smi to see whether the driver works at all";
  }
}

}  // namespace

std::string driver_path() {
  std::string named = trusted_environment("VRAM_CUDA_DRIVER");
  return named.empty() ? "libcuda.so.1" : named;
}

Result<DriverApi> DriverApi::load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return fail(Code::kNotFound,
                "expected the CUDA driver as {}, found that it can't be opened ({}): install "
                "NVIDIA's driver, or make its libraries visible in the container",
                path, why == nullptr ? "no reason given" : why);
  }
  DriverApi api;
  Symbols symbols(library);
  find_devices(symbols, api);
  find_memory(symbols, api);
  find_streams(symbols, api);
  if (!symbols.missing().empty()) {
    return fail(Code::kUnsupported,
                "expected a CUDA driver of version 11.0 or later as {}, found a library without "
                "{}: update NVIDIA's driver",
                path, symbols.missing());
  }
  if (const CUresult result = api.init(0); result != kSuccess) {
    return fail(result == kErrorNoDevice ? Code::kNotFound : Code::kUnsupported,
                "expected {} to start, found that cuInit answers {}: {}", path, api.name_of(result),
                advice_for(result));
  }
  return api;
}

std::string DriverApi::name_of(CUresult error) const {
  const char* name = nullptr;
  if (get_error_name(error, &name) != kSuccess || name == nullptr) name = "an error without a name";
  return fmt::format("{} ({})", name, static_cast<int>(error));
}

Status status_of(CUresult result) {
  switch (result) {
    case kSuccess:
      return Status::kOk;
    case kErrorOutOfMemory:
      return Status::kOutOfMemory;
    case kErrorNotReady:
    case kErrorCaptureUnsupported:
    case kErrorCaptureInvalidated:
    case kErrorCaptureIsolation:
    case kErrorCaptureImplicit:
    case kErrorCapturedEvent:
    case kErrorCaptureWrongThread:
      return Status::kNotReady;
    case kErrorNotSupported:
      return Status::kNotSupported;
    case kErrorInvalidValue:
    case kErrorInvalidDevice:
    case kErrorInvalidImage:
    case kErrorInvalidContext:
    case kErrorInvalidHandle:
      return Status::kInvalidValue;
    default:
      return Status::kFault;
  }
}

bool is_device_lost(CUresult result) {
  return result == kErrorDeinitialized || result == kErrorEccUncorrectable ||
         result == kErrorNvlinkUncorrectable || result == kErrorIllegalAddress ||
         result == kErrorLaunchTimeout || result == kErrorAssert ||
         (result >= kErrorHardwareStack && result <= kErrorLaunchFailed);
}

}  // namespace vram::gpu::cuda
