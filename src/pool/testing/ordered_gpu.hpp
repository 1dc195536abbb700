// OrderedGpu: the simulated GPU, with a second account of which stream's work starts when. For
// tests that ask whether memory went to another stream too early.
#pragma once

#include "gpu/sim/sim_gpu.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

namespace vram::pool {

class OrderedGpu : public gpu::SimGpu {
 public:
  using SimGpu::SimGpu;
  using Event = gpu::EventHandle;

  void work(gpu::StreamHandle stream, int64_t duration_ns) {
    ends_[stream] = start_of_work(stream) + duration_ns;
    (void)enqueue(0, stream, duration_ns);
  }
  // When work that is queued now would start.
  [[nodiscard]] int64_t start_of_work(gpu::StreamHandle stream) {
    return std::max(now_ns(), ends_[stream]);
  }
  [[nodiscard]] gpu::Status record(uint32_t device, gpu::StreamHandle stream,
                                   Event* event) override {
    const int64_t time_ns = start_of_work(stream);
    const gpu::Status status = SimGpu::record(device, stream, event);
    if (status == gpu::Status::kOk) events_[*event] = time_ns;
    return status;
  }
  [[nodiscard]] gpu::Status stream_wait(uint32_t device, gpu::StreamHandle stream,
                                        Event event) override {
    const gpu::Status status = SimGpu::stream_wait(device, stream, event);
    if (status == gpu::Status::kOk) ends_[stream] = std::max(ends_[stream], events_[event]);
    return status;
  }

 private:
  std::map<gpu::StreamHandle, int64_t> ends_;
  std::map<Event, int64_t> events_;
};

}  // namespace vram::pool
