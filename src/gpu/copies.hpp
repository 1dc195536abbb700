// Copies: the seam through which bytes go in and out of a device's memory, for those that test or
// measure it. Allocators need none of it, so it stands beside Memory (memory.hpp), by whose rules
// it goes: statuses, addresses, ordinals, out-parameters.
//
// Copies and fills are queued in a stream and done when an event recorded behind them has happened;
// until then the host's bytes are the device's. With pinned memory the call comes back at once;
// with any other it may wait.
#pragma once

#include "gpu/memory.hpp"

#include <concepts>
#include <cstdint>

namespace vram::gpu {

template <typename C>
concept Copies = requires(C& c, uint32_t device, StreamHandle stream, Address to, Address from,
                          uint64_t bytes, void* host, const void* host_from, uint32_t word,
                          StreamHandle* stream_out, void** host_out) {
  // Memory of the host that devices reach by themselves. unpin takes what pin gave, once.
  { c.pin(bytes, host_out) } -> std::same_as<Status>;
  { c.unpin(host) } -> std::same_as<Status>;
  // A stream that waits for no other. destroy_stream comes when its work is done.
  { c.create_stream(device, stream_out) } -> std::same_as<Status>;
  { c.destroy_stream(stream) } -> std::same_as<Status>;

  { c.copy_in(device, stream, to, host_from, bytes) } -> std::same_as<Status>;
  { c.copy_out(device, stream, host, from, bytes) } -> std::same_as<Status>;
  // Within the device; the ranges don't overlap.
  { c.copy(device, stream, to, from, bytes) } -> std::same_as<Status>;
  // Writes the word again and again; address and bytes are multiples of 4.
  { c.fill(device, stream, to, word, bytes) } -> std::same_as<Status>;
};

}  // namespace vram::gpu
