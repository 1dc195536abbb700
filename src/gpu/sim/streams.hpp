// Streams: when the work of each stream of the simulated GPU ends, on the virtual clock. A stream
// is known from its first use; work in one stream runs in order, streams run side by side, and the
// default stream waits for no other. All times are the caller's clock. Not thread-safe; allocates
// at a stream's first use and for each live event.
#pragma once

#include "gpu/memory.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace vram::gpu {

class Streams {
 public:
  // Work that takes duration_ns, after what is queued in the stream already.
  void enqueue(uint32_t device, StreamHandle stream, int64_t now_ns, int64_t duration_ns);
  // Later work of the stream starts no earlier than that.
  void hold_until(uint32_t device, StreamHandle stream, int64_t time_ns);
  // When all that is queued now is done; now_ns or earlier is idle.
  [[nodiscard]] int64_t idle_at(uint32_t device) const;
  [[nodiscard]] int64_t idle_at(uint32_t device, StreamHandle stream) const;

  [[nodiscard]] EventHandle record(uint32_t device, StreamHandle stream, int64_t now_ns);
  // When the event happens; nothing where there is no such event.
  [[nodiscard]] std::optional<int64_t> happens_at(EventHandle event) const;
  [[nodiscard]] bool destroy(EventHandle event);

 private:
  std::map<std::pair<uint32_t, StreamHandle>, int64_t> ends_;
  std::unordered_map<EventHandle, int64_t> events_;
  EventHandle last_event_ = 0;
};

}  // namespace vram::gpu
