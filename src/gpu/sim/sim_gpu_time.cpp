// The calls of SimGpu that are about when, not where.
#include "gpu/sim/sim_gpu.hpp"

namespace vram::gpu {

Status SimGpu::record(uint32_t device, StreamHandle stream, EventHandle* event) {
  if (const Status s = begin(Call::kRecord); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kRecord, Status::kInvalidValue);
  *event = streams_.record(device, stream, now_ns_);
  return done(Call::kRecord, costs_.record_ns);
}

Status SimGpu::query(EventHandle event) {
  if (const Status s = begin(Call::kQuery); s != Status::kOk) return s;
  const std::optional<int64_t> time_ns = streams_.happens_at(event);
  if (!time_ns) return refuse(Call::kQuery, Status::kInvalidValue);
  const Status status = *time_ns <= now_ns_ ? Status::kOk : Status::kNotReady;
  (void)done(Call::kQuery, costs_.query_ns);
  return status;
}

Status SimGpu::wait(EventHandle event) {
  if (const Status s = begin(Call::kWait); s != Status::kOk) return s;
  const std::optional<int64_t> time_ns = streams_.happens_at(event);
  if (!time_ns) return refuse(Call::kWait, Status::kInvalidValue);
  wait_until(Call::kWait, *time_ns);
  return done(Call::kWait, costs_.wait_ns);
}

Status SimGpu::stream_wait(uint32_t device, StreamHandle stream, EventHandle event) {
  if (const Status s = begin(Call::kStreamWait); s != Status::kOk) return s;
  const std::optional<int64_t> time_ns = streams_.happens_at(event);
  if (!is_device(device) || !time_ns) return refuse(Call::kStreamWait, Status::kInvalidValue);
  streams_.hold_until(device, stream, *time_ns);
  return done(Call::kStreamWait, costs_.stream_wait_ns);
}

Status SimGpu::destroy(EventHandle event) {
  if (const Status s = begin(Call::kDestroy); s != Status::kOk) return s;
  if (!streams_.destroy(event)) return refuse(Call::kDestroy, Status::kInvalidValue);
  return done(Call::kDestroy, costs_.destroy_ns);
}

Status SimGpu::synchronize(uint32_t device) {
  if (const Status s = begin(Call::kSynchronize); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kSynchronize, Status::kInvalidValue);
  wait_until(Call::kSynchronize, streams_.idle_at(device));
  return done(Call::kSynchronize, costs_.synchronize_ns);
}

Status SimGpu::enqueue(uint32_t device, StreamHandle stream, int64_t duration_ns) {
  if (!is_device(device) || duration_ns < 0) return Status::kInvalidValue;
  streams_.enqueue(device, stream, now_ns_, duration_ns);
  return Status::kOk;
}

}  // namespace vram::gpu
