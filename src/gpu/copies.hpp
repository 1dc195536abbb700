// Copies: the interface through which bytes go in and out of a device's memory, for tests and
// measurements. Allocators need none of it, so it is an interface of its own, with the rules of
// Memory (memory.hpp) for statuses, addresses, ordinals and out-parameters.
//
// Copies and fills are queued in a stream and done when an event recorded behind them has happened;
// until then the host's bytes are the device's. With pinned memory the call comes back at once;
// with any other it may wait.
#pragma once

#include "gpu/memory.hpp"

#include <cstdint>

namespace vram::gpu {

class Copies {
 public:
  Copies() = default;
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  virtual ~Copies() = default;

  // Memory of the host that devices reach by themselves. unpin takes what pin gave, once.
  [[nodiscard]] virtual Status pin(uint64_t bytes, void** host) = 0;
  [[nodiscard]] virtual Status unpin(void* host) = 0;
  // A stream that waits for no other. destroy_stream comes when its work is done.
  [[nodiscard]] virtual Status create_stream(uint32_t device, StreamHandle* stream) = 0;
  [[nodiscard]] virtual Status destroy_stream(StreamHandle stream) = 0;

  [[nodiscard]] virtual Status copy_in(uint32_t device, StreamHandle stream, Address to,
                                       const void* from, uint64_t bytes) = 0;
  [[nodiscard]] virtual Status copy_out(uint32_t device, StreamHandle stream, void* to,
                                        Address from, uint64_t bytes) = 0;
  // Within the device; the ranges don't overlap.
  [[nodiscard]] virtual Status copy(uint32_t device, StreamHandle stream, Address to, Address from,
                                    uint64_t bytes) = 0;
  // Writes the word again and again; address and bytes are multiples of 4.
  [[nodiscard]] virtual Status fill(uint32_t device, StreamHandle stream, Address to, uint32_t word,
                                    uint64_t bytes) = 0;
};

}  // namespace vram::gpu
