// The driver's entry points for events, streams and waiting; for copies, pinned memory and devices'
// names.
#include "gpu/cuda/cuda_copies.hpp"
#include "machine.hpp"

#include <cstdio>
#include <cstring>
#include <utility>

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
namespace vram::gpu::cuda {
namespace {

using fake::enter;
using fake::kNeedsContext;
using fake::kNeedsInit;
using fake::kUnsafeInCapture;
using fake::Machine;

fake::StreamKey key_of(const Machine& machine, CUstream stream) {
  return machine.streams.named(current_device(machine), stream);
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return enter("cuEventCreate", kNeedsContext, [&](Machine& machine) {
    if ((flags & ~7U) != 0) return kErrorInvalidValue;
    return machine.streams.create_event(current_device(machine), event);
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return enter("cuEventRecord", kNeedsContext, [&](Machine& machine) {
    return machine.streams.record(event, key_of(machine, stream));
  });
}

CUresult cuEventQuery(CUevent event) {
  return enter("cuEventQuery", kNeedsInit | kUnsafeInCapture,
               [&](Machine& machine) { return machine.streams.query(event); });
}

CUresult cuEventSynchronize(CUevent event) {
  return enter("cuEventSynchronize", kNeedsContext | kUnsafeInCapture,
               [&](Machine& machine) { return machine.streams.synchronize(event); });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return enter("cuEventDestroy_v2", kNeedsContext,
               [&](Machine& machine) { return machine.streams.destroy_event(event); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return enter("cuStreamWaitEvent", kNeedsContext, [&](Machine& machine) {
    if (flags != 0) return kErrorInvalidValue;
    return machine.streams.wait(key_of(machine, stream), event);
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUcaptureStatus* status) {
  return enter("cuStreamIsCapturing", kNeedsContext, [&](Machine& machine) {
    const CUresult refused = machine.streams.refusal(key_of(machine, stream));
    if (refused == kSuccess) *status = machine.streams.capture_status(key_of(machine, stream));
    return refused;
  });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return enter("cuStreamGetCtx", kNeedsContext, [&](Machine& machine) {
    const fake::StreamKey key = key_of(machine, stream);
    const CUresult refused = machine.streams.refusal(key);
    if (refused == kSuccess) *context = machine.contexts[static_cast<size_t>(key.first)].get();
    return refused;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return enter("cuStreamSynchronize", kNeedsContext | kUnsafeInCapture, [&](Machine& machine) {
    if (machine.streams.capture_status(key_of(machine, stream)) != kCaptureNone) {
      machine.streams.spoil_captures();
      return kErrorCaptureUnsupported;
    }
    machine.streams.finish_stream(key_of(machine, stream));
    return kSuccess;
  });
}

// Forbidden during a capture in every mode: it would wait for what only the graph will run.
CUresult cuCtxSynchronize() {
  return enter("cuCtxSynchronize", kNeedsContext | kUnsafeInCapture, [&](Machine& machine) {
    const int device = current_device(machine);
    if (machine.streams.is_any_captured(device)) {
      machine.streams.spoil_captures();
      return kErrorCaptureUnsupported;
    }
    machine.streams.finish_device(device);
    return kSuccess;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUcaptureMode* mode) {
  return enter("cuThreadExchangeStreamCaptureMode", fake::kNeedsNothing, [&](Machine&) {
    if (*mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kErrorInvalidValue;
    std::swap(*mode, fake::this_thread().capture_mode);
    return kSuccess;
  });
}

}  // extern "C"
}  // namespace vram::gpu::cuda
// NOLINTEND(readability-identifier-naming)

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
namespace vram::gpu::cuda {
namespace {

using fake::enter;
using fake::kNeedsContext;
using fake::kNeedsInit;
using fake::Machine;

constexpr size_t kWordBytes = 4;

// NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are numbers
char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }

// Copies are done at once: what a test queues in the stream before delays events alone.
template <typename Body>
CUresult enter_copy(const char* function, std::initializer_list<CUdeviceptr> begins, size_t bytes,
                    Body body) {
  return enter(function, kNeedsContext, [&](Machine& machine) {
    for (const CUdeviceptr begin : begins) {
      if (!machine.memory.can_touch_all(current_device(machine), begin, bytes))
        return kErrorInvalidValue;
    }
    body(machine);
    return kSuccess;
  });
}

CUresult answer(char* text, int size, const std::string& value) {
  if (size <= static_cast<int>(value.size())) return kErrorInvalidValue;
  std::strcpy(text, value.c_str());
  return kSuccess;
}

template <typename Body>
CUresult enter_device(const char* function, CUdevice device, Body body) {
  return enter(function, kNeedsInit, [&](const Machine& machine) {
    return machine.is_device(device) ? body() : kErrorInvalidDevice;
  });
}

}  // namespace

extern "C" {

CUresult cuMemHostAlloc(void** host, size_t bytes, unsigned flags) {
  return enter("cuMemHostAlloc", kNeedsContext, [&](Machine& machine) {
    if (bytes == 0 || (flags & ~7U) != 0) return kErrorInvalidValue;
    auto pinned = std::make_unique<char[]>(bytes);
    *host = pinned.get();
    machine.pinned[*host] = std::move(pinned);
    return kSuccess;
  });
}

CUresult cuMemFreeHost(void* host) {
  return enter("cuMemFreeHost", kNeedsContext, [&](Machine& machine) {
    return machine.pinned.erase(host) == 1 ? kSuccess : kErrorInvalidValue;
  });
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return enter("cuStreamCreate", kNeedsContext, [&](Machine& machine) {
    if (flags > 1) return kErrorInvalidValue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle, never a pointer to anything
    *stream = reinterpret_cast<CUstream>(machine.last_stream += 16);
    machine.made_streams.insert(*stream);
    return kSuccess;
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return enter("cuStreamDestroy_v2", kNeedsContext, [&](Machine& machine) {
    return machine.made_streams.erase(stream) == 1 ? kSuccess : kErrorInvalidHandle;
  });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  return enter_copy("cuMemcpyHtoDAsync_v2", {to}, bytes,
                    [&](Machine&) { std::memcpy(pointer(to), from, bytes); });
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  return enter_copy("cuMemcpyDtoHAsync_v2", {from}, bytes, [&](Machine& machine) {
    std::memcpy(to, pointer(from), bytes);
    machine.spoil(static_cast<char*>(to), bytes);
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  return enter_copy("cuMemcpyDtoDAsync_v2", {to, from}, bytes,
                    [&](Machine&) { std::memmove(pointer(to), pointer(from), bytes); });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned word, size_t words, CUstream) {
  if (to % kWordBytes != 0) return kErrorInvalidValue;
  return enter_copy("cuMemsetD32Async", {to}, words * kWordBytes, [&](Machine&) {
    for (size_t i = 0; i < words; ++i) std::memcpy(pointer(to) + i * kWordBytes, &word, kWordBytes);
  });
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  return enter_device("cuDeviceGetName", device, [&] { return answer(name, size, "Fake GPU"); });
}

// The last byte is the ordinal, all others are 0.
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return enter_device("cuDeviceGetUuid", device, [&] {
    *uuid = {};
    uuid->bytes[15] = static_cast<unsigned char>(device);
    return kSuccess;
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  char text[16];
  std::snprintf(text, sizeof(text), "0000:%02X:00.0", device + 1);
  return enter_device("cuDeviceGetPCIBusId", device, [&] { return answer(id, size, text); });
}

}  // extern "C"
}  // namespace vram::gpu::cuda
// NOLINTEND(readability-identifier-naming)
