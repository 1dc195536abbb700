// The driver's entry points for events, streams and waiting.
#include "machine.hpp"

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
