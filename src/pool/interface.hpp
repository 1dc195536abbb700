// What the user of a pool chooses (Options) and reads (Stats), and who is notified of changes
// (Observer).
#pragma once

#include "base/bytes.hpp"
#include "pool/stamp.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace vram::pool {

enum class Backing : uint8_t {
  kVirtual,   // handles, mapped
  kSegments,  // for devices that can't map: nothing can be stitched, and only whole ones go back
};

// What is chosen between memory and time in the driver. Measured defaults. A value.
struct Options {
  Backing backing = Backing::kVirtual;
  // The largest handle, but for what one request lacks: that may come in some twice as large.
  // Smaller ones pack better under pressure, larger ones are mapped sooner.
  uint64_t handle_bytes = 20 * kMiB;
  // New memory comes in steps of at least this part of the peak of live bytes.
  uint32_t growth_divisor = 96;
  // Reserved may pass the peak of live bytes by so much before free pieces are stitched instead.
  uint32_t slack_permille = 2;
  // And by so much more before a stream is made to wait for memory that another one freed.
  uint32_t patience_permille = 30;
  // Stitches that may stay mapped, in percent of the reserved bytes.
  uint32_t stitched_percent = 200;
  // While threads compete, reserved may pass what is live and lent by so much before all that is
  // lent comes back.
  uint32_t competing_permille = 250;
  // Whether last_oom() names what holds the memory, for which each failure looks at all blocks.
  bool finds_holders = true;
};

// Stats: what the pool counts, with PyTorch's names and meanings (torch.cuda.memory_stats), and
// what PyTorch has no name for. Plain values.
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

// Observer: is notified of what the pool does with its memory, and of the blocks in it. Called with
// the pool's lock held, so it must not call the pool; it is notified of changes when they are done,
// and of a block that is finished before its memory can be used for anything else.
enum class Found : uint8_t {
  kLive,
  kShared,  // other streams use it, too
  kHeld     // freed, and they still do; finished() will follow
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Memory of the device, at its home.
  virtual void mapped(Address address, uint64_t bytes) = 0;
  virtual void unmapped(Address address, uint64_t bytes) = 0;
  // A freed block that other streams used: they are done.
  virtual void finished(Address block) = 0;
  // What is there already. A block that is shown elsewhere than at its home follows its parts.
  virtual void found_mapped(Address address, uint64_t bytes) = 0;
  virtual void part(Address block, Address home, uint64_t bytes) = 0;
  virtual void found_block(Address address, uint64_t requested_bytes, StreamHandle stream,
                           Found state) = 0;
};

}  // namespace vram::pool
