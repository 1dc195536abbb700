// The driver's entry points for memory.
#include "machine.hpp"

#include <span>

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
namespace vram::gpu::cuda {
namespace {

using fake::enter;
using fake::kNeedsContext;
using fake::kNeedsInit;
using fake::kUnsafeInCapture;
using fake::Machine;

CUresult check(const Machine& machine, const CUmemAllocationProp& prop) {
  if (prop.type != kAllocationPinned || prop.location.type != kLocationDevice) {
    return kErrorInvalidValue;
  }
  if (!machine.is_device(prop.location.id)) return kErrorInvalidDevice;
  if (prop.requested_handle_types != 0) return kErrorNotSupported;
  const bool is_virtual = machine.is_virtual[static_cast<size_t>(prop.location.id)];
  return is_virtual ? kSuccess : kErrorNotSupported;
}

// Whether each accessor is a device that can reach all of these devices' memory.
CUresult check(const Machine& machine, std::span<const CUmemAccessDesc> accesses,
               uint64_t memory_of) {
  for (const CUmemAccessDesc& access : accesses) {
    if (access.location.type != kLocationDevice || !machine.is_device(access.location.id)) {
      return kErrorInvalidDevice;
    }
    for (int device = 0; device < machine.device_count(); ++device) {
      const bool is_its_memory = (memory_of >> device & 1) != 0;
      if (is_its_memory && !machine.can_reach(access.location.id, device)) {
        return kErrorInvalidDevice;
      }
    }
  }
  return kSuccess;
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return enter("cuMemGetInfo_v2", kNeedsContext, [&](Machine& machine) {
    const fake::DeviceMemory& device = machine.memory.device(current_device(machine));
    *free = device.free_bytes();
    *total = device.capacity_bytes();
    return kSuccess;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return enter("cuMemAlloc_v2", kNeedsContext | kUnsafeInCapture, [&](Machine& machine) {
    return machine.memory.alloc_segment(current_device(machine), bytes, address);
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return enter("cuMemFree_v2", kNeedsContext | kUnsafeInCapture, [&](Machine& machine) {
    if (address == 0) return kSuccess;
    const int device = machine.memory.free_segment(address);
    if (device < 0) return kErrorInvalidValue;
    machine.streams.finish_device(device);
    return kSuccess;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* prop,
                                       CUmemGranularity option) {
  return enter("cuMemGetAllocationGranularity", kNeedsInit, [&](const Machine& machine) {
    if (option != kGranularityMinimum) return kErrorInvalidValue;
    const CUresult checked = check(machine, *prop);
    if (checked == kSuccess) *bytes = fake::kPageBytes;
    return checked;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  return enter("cuMemAddressReserve", kNeedsInit | kUnsafeInCapture, [&](Machine& machine) {
    if (alignment > fake::kPageBytes || (alignment & (alignment - 1)) != 0 || flags != 0) {
      return kErrorInvalidValue;
    }
    return machine.memory.reserve(bytes, address);
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return enter("cuMemAddressFree", kNeedsInit | kUnsafeInCapture,
               [&](Machine& machine) { return machine.memory.unreserve(address, bytes); });
}

CUresult cuMemCreate(CUmemHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  return enter("cuMemCreate", kNeedsInit | kUnsafeInCapture, [&](Machine& machine) {
    if (flags != 0) return kErrorInvalidValue;
    CUresult result = check(machine, *prop);
    if (result == kSuccess) result = machine.memory.create(prop->location.id, bytes, handle);
    if (result == kSuccess) machine.is_last_rdma_capable = prop->flags.gpu_direct_rdma_capable != 0;
    return result;
  });
}

CUresult cuMemRelease(CUmemHandle handle) {
  return enter("cuMemRelease", kNeedsInit | kUnsafeInCapture,
               [&](Machine& machine) { return machine.memory.release(handle); });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemHandle handle,
                  unsigned long long flags) {
  return enter("cuMemMap", kNeedsInit | kUnsafeInCapture, [&](Machine& machine) {
    if (flags != 0) return kErrorInvalidValue;
    return offset != 0 ? kErrorNotSupported : machine.memory.map(address, bytes, handle);
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return enter("cuMemUnmap", kNeedsInit | kUnsafeInCapture,
               [&](Machine& machine) { return machine.memory.unmap(address, bytes); });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* accesses,
                        size_t count) {
  return enter("cuMemSetAccess", kNeedsInit | kUnsafeInCapture, [&](Machine& machine) {
    uint64_t memory_of = 0;
    if (count == 0 || !machine.memory.is_whole(address, bytes, &memory_of)) {
      return kErrorInvalidValue;
    }
    const std::span all(accesses, count);
    const CUresult checked = check(machine, all, memory_of);
    if (checked != kSuccess) return checked;
    uint64_t readers = 0;
    uint64_t writers = 0;
    for (const CUmemAccessDesc& access : all) {
      const uint64_t bit = uint64_t{1} << access.location.id;
      if (access.flags != kAccessNone) readers |= bit;
      if (access.flags == kAccessReadWrite) writers |= bit;
    }
    machine.memory.set_access(address, bytes, readers, writers);
    return kSuccess;
  });
}

}  // extern "C"
}  // namespace vram::gpu::cuda
// NOLINTEND(readability-identifier-naming)
