// The driver's entry points for errors, devices and contexts.
#include "gpu/cuda/driver_types.hpp"
#include "machine.hpp"

#include <cstdint>
#include <dlfcn.h>
#include <string>

// NOLINTBEGIN(readability-identifier-naming): the driver's own names

namespace vram::gpu::cuda {
namespace {

using fake::enter;
using fake::Machine;

const char* name_of(CUresult error) {
  switch (error) {
    case kSuccess:
      return "CUDA_SUCCESS";
    case kErrorInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case kErrorOutOfMemory:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case kErrorNoDevice:
      return "CUDA_ERROR_NO_DEVICE";
    case kErrorSystemDriverMismatch:
      return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    case kErrorUnknown:
      return "CUDA_ERROR_UNKNOWN";
    default:
      return nullptr;
  }
}

// An answer about one device.
template <typename Body>
CUresult enter_device(const char* function, CUdevice device, Body body) {
  return enter(function, fake::kNeedsInit, [&](Machine& machine) {
    return machine.is_device(device) ? body(machine) : kErrorInvalidDevice;
  });
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) {
  return enter("cuInit", fake::kNeedsNothing, [&](Machine& machine) {
    if (flags != 0) return kErrorInvalidValue;
    if (machine.device_count() == 0) return kErrorNoDevice;
    machine.is_initialized = true;
    return kSuccess;
  });
}

// Never fails on purpose: it is what failures are explained with.
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = name_of(error);
  return *name == nullptr ? kErrorInvalidValue : kSuccess;
}

CUresult cuDeviceGetCount(int* count) {
  return enter("cuDeviceGetCount", fake::kNeedsInit, [&](const Machine& machine) {
    *count = machine.device_count();
    return kSuccess;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return enter_device("cuDeviceGet", ordinal, [&](Machine&) {
    *device = ordinal;
    return kSuccess;
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return enter_device("cuDeviceTotalMem_v2", device, [&](Machine& machine) {
    *bytes = machine.memory.device(device).capacity_bytes();
    return kSuccess;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUattribute attribute, CUdevice device) {
  return enter_device("cuDeviceGetAttribute", device, [&](const Machine& machine) {
    if (attribute != kVirtualMemoryManagementSupported &&
        attribute != kGpuDirectRdmaWithVmmSupported) {
      return kErrorInvalidValue;
    }
    *value = machine.is_virtual[static_cast<size_t>(device)] ? 1 : 0;
    return kSuccess;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return enter_device("cuDeviceCanAccessPeer", device, [&](const Machine& machine) {
    if (!machine.is_device(peer)) return kErrorInvalidDevice;
    *can = device != peer && machine.can_reach(device, peer) ? 1 : 0;
    return kSuccess;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* is_active) {
  return enter_device("cuDevicePrimaryCtxGetState", device, [&](const Machine& machine) {
    *flags = 0;
    *is_active = machine.contexts[static_cast<size_t>(device)]->retained > 0 ? 1 : 0;
    return kSuccess;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return enter_device("cuDevicePrimaryCtxRetain", device, [&](const Machine& machine) {
    *context = machine.contexts[static_cast<size_t>(device)].get();
    ++(*context)->retained;
    return kSuccess;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return enter_device("cuDevicePrimaryCtxRelease_v2", device, [&](const Machine& machine) {
    size_t& retained = machine.contexts[static_cast<size_t>(device)]->retained;
    if (retained == 0) return kErrorInvalidContext;
    --retained;
    return kSuccess;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return enter("cuCtxGetCurrent", fake::kNeedsInit, [&](Machine&) {
    const auto& contexts = fake::this_thread().contexts;
    *context = contexts.empty() ? nullptr : contexts.back();
    return kSuccess;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return enter("cuCtxGetDevice", fake::kNeedsContext, [&](const Machine& machine) {
    *device = fake::current_device(machine);
    return kSuccess;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return enter("cuCtxPushCurrent_v2", fake::kNeedsInit, [&](const Machine& machine) {
    for (const auto& known : machine.contexts) {
      if (known.get() != context || known->retained == 0) continue;
      fake::this_thread().contexts.push_back(context);
      return kSuccess;
    }
    return kErrorInvalidContext;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return enter("cuCtxPopCurrent_v2", fake::kNeedsInit, [&](Machine&) {
    auto& contexts = fake::this_thread().contexts;
    if (contexts.empty()) return kErrorInvalidContext;
    if (context != nullptr) *context = contexts.back();
    contexts.pop_back();
    return kSuccess;
  });
}

}  // extern "C"

}  // namespace vram::gpu::cuda

// NOLINTEND(readability-identifier-naming)

// How newer programs find the driver's functions: by name, from the driver itself.

using vram::gpu::cuda::CUresult;

// NOLINTNEXTLINE(readability-identifier-naming): the driver's own name
extern "C" CUresult cuGetProcAddress_v2(const char* name, void** function, int /*version*/,
                                        uint64_t /*flags*/, void* /*status*/) {
  Dl_info own{};
  (void)dladdr(reinterpret_cast<const void*>(&cuGetProcAddress_v2), &own);
  void* const driver = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* suffix : {"_v2", ""}) {
    if (*function == nullptr) *function = dlsym(driver, (name + std::string(suffix)).c_str());
  }
  return *function != nullptr ? vram::gpu::cuda::kSuccess : vram::gpu::cuda::kErrorInvalidValue;
}
