// Stats: what the pool counts, with PyTorch's names and meanings (torch.cuda.memory_stats), and
// what PyTorch has no name for. Plain values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace vram::pool {

struct Stat {
  uint64_t current = 0;
  uint64_t peak = 0;
  uint64_t allocated = 0;  // sum of all increases
  uint64_t freed = 0;

  void add(uint64_t amount) {
    current += amount;
    allocated += amount;
    peak = std::max(peak, current);
  }
  void drop(uint64_t amount) {
    current -= amount;
    freed += amount;
  }
  void reset_peak() { peak = current; }
  void reset_sums() { allocated = freed = 0; }
};

struct Stats {
  Stat allocation;                 // blocks
  Stat allocated_bytes;            // held by tensors
  Stat active_bytes;               // and by streams after that
  Stat requested_bytes;            // as asked for, of the active ones
  Stat reserved_bytes;             // physical memory
  uint64_t num_alloc_retries = 0;  // waited for the whole device to serve one request
  uint64_t num_ooms = 0;
  uint64_t num_device_alloc = 0;  // handles created
  uint64_t num_device_free = 0;
  uint64_t stitches = 0;       // free pieces mapped as one range
  uint64_t stitch_reuses = 0;  // served by one that was mapped already
  uint64_t stream_waits = 0;   // reuse that made a stream wait for another
  uint64_t slow_requests = 0;  // not served by a free block at once
  uint64_t shelf_hits = 0;     // of threads that compete: served without the pool

  void reset_peaks() {
    for (Stat* stat : all()) stat->reset_peak();
  }
  void reset_sums() {
    for (Stat* stat : all()) stat->reset_sums();
    num_alloc_retries = num_ooms = 0;
  }
  [[nodiscard]] std::array<Stat*, 5> all() {
    return {&allocation, &allocated_bytes, &active_bytes, &requested_bytes, &reserved_bytes};
  }
};

}  // namespace vram::pool
