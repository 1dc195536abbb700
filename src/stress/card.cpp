#include "stress/card.hpp"

namespace vram::stress {

Status Card::finish(StreamHandle stream) {
  gpu::EventHandle event = 0;
  if (memory_.record(ordinal_, stream, &event) != Status::kOk) return memory_.synchronize(ordinal_);
  const Status waited = memory_.wait(event);
  (void)memory_.destroy(event);
  return waited;
}

bool Card::gives_back(gpu::Call call) {
  switch (call) {
    case gpu::Call::kFreeSegment:
    case gpu::Call::kUnreserve:
    case gpu::Call::kRelease:
    case gpu::Call::kUnmap:
    case gpu::Call::kDestroy:
    case gpu::Call::kUnpin:
    case gpu::Call::kDestroyStream:
      return true;
    default:
      return false;
  }
}

// Of a failure the text says what the driver answered.
Status Card::note(gpu::Call call, Status status) {
  if (status == Status::kOk || status == Status::kOutOfMemory || status == Status::kNotReady ||
      status == Status::kNotSupported) {
    return status;
  }
  const std::lock_guard guard(mutex_);
  // A device that is lost fails every call: the first says why.
  const bool is_new_failure = !is_lost_ && failures_.size() < kMaxFailures;
  if (is_new_failure)
    failures_.push_back({std::string(gpu::to_string(call)), answer_(call, status), phase_});
  is_lost_ = is_lost_ || status == Status::kFault;
  return status;
}

}  // namespace vram::stress
