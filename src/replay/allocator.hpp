// Allocator: what run() drives. One object per replay and device, single-threaded. Blocks are named
// by the program's numbers, so an implementation keeps a flat array and never hashes. Memory comes
// from gpu/sim alone: calls, costs and limits are counted there.
#pragma once

#include "trace/event.hpp"

#include <cstdint>
#include <string>

namespace vram::replay {

struct Request {
  uint64_t size_bytes = 0;
  uint32_t block = 0;
  trace::StreamId stream = 0;
  trace::PoolId pool = 0;
  int64_t time_ns = 0;  // recorded time of the request
};

// Bytes as PyTorch's statistics of the same names count them.
struct Usage {
  uint64_t requested_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t active_bytes = 0;
  uint64_t reserved_bytes = 0;
};

struct Counters {
  uint64_t device_allocs = 0;  // segments taken, or ranges mapped
  uint64_t device_frees = 0;
  uint64_t retries = 0;              // all cached memory was released to serve a request
  uint64_t stream_waits = 0;         // reuse that made one stream wait for another
  uint64_t peak_reserved_bytes = 0;  // at any moment, also inside one call
};

class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  // 0 on out of memory, else the block's address.
  [[nodiscard]] virtual uint64_t malloc(const Request& request) = 0;
  // The block is unused by every stream.
  virtual void free(uint32_t block, int64_t time_ns) = 0;
  // The tensor was freed, but other streams use the block until complete(). The allocator can learn
  // of the completion earlier only by waiting for the device.
  virtual void free_later(uint32_t block, int64_t time_ns) = 0;
  virtual void complete(uint32_t block, int64_t time_ns) = 0;

  // Returns whether the blocks from before the program are where they were recorded, so that they
  // need not be requested again.
  [[nodiscard]] virtual bool holds_initial_blocks() const { return false; }

  // The program releases all cached memory.
  virtual void empty_cache() {}

  // Both references stay valid and are updated by every call.
  [[nodiscard]] virtual const Usage& usage() const = 0;
  [[nodiscard]] virtual const Counters& counters() const = 0;
  // Largest free block that this request might have used, for the story of an OOM.
  [[nodiscard]] virtual uint64_t largest_free_bytes(const Request& request) const {
    static_cast<void>(request);
    return 0;
  }
};

}  // namespace vram::replay
