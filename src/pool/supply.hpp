// Supply: takes memory from the device and gives it back. It decides when more memory is worth it
// (the allowance), which sizes the handles have, how much the limit leaves, and which handles can
// go back.
//
//     ladder ──▶ Supply ──▶ stock (handles at their homes) ──▶ arena (free memory)
//     trim()       └──────▶ stitches (those that show a handle that goes back are dropped)
//
// It adds free nodes to the arena and removes free ones; who gets free memory is decided elsewhere.
// One thread at a time; allocates for each handle.
#pragma once

#include "pool/arena.hpp"
#include "pool/blocks.hpp"
#include "pool/device.hpp"
#include "pool/interface.hpp"
#include "pool/stitches.hpp"
#include "pool/stock.hpp"

#include <cstdint>
#include <limits>

namespace vram::pool {

class Supply {
 public:
  // All arguments must outlive this.
  Supply(Device& device, const Options& options, Stock& stock, Stitches& stitches, Arena& arena,
         const Leases& leases, Stats& stats)
      : device_(device),
        options_(options),
        stock_(stock),
        stitches_(stitches),
        arena_(arena),
        leases_(leases),
        stats_(stats) {}

  // Reserves address ranges that suffice for the device. Call it once, before everything else.
  // False: the driver refused.
  [[nodiscard]] bool reserve();

  // What may be reserved before free pieces are put to use instead.
  [[nodiscard]] uint64_t allowance_bytes(const Wanted& wanted) const;
  // What is free at the end of all homes, where new memory would continue it.
  [[nodiscard]] uint64_t tail_bytes(const Wanted& wanted) const;
  // Whether the next request may find no new memory, as far as that is known without the driver.
  [[nodiscard]] bool is_nearly_full() const;
  // Whether all of it could be had; what could is free memory in the lane, for the stream at once.
  bool grow(uint64_t bytes, const Wanted& wanted);
  // Gives memory back to the device, so many bytes if it can; how many it was.
  uint64_t trim(uint64_t bytes);
  // Gives all mappings the access rights that the device has now.
  [[nodiscard]] Status renew_access();

  // The maximum of reserved bytes from now on; memory above it stays until it is trimmed.
  void limit(uint64_t bytes) { limit_bytes_ = bytes; }
  [[nodiscard]] uint64_t limit_bytes() const { return limit_bytes_; }
  // Notified of memory that is mapped or unmapped from now on; nullptr: none. Must outlive this.
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  [[nodiscard]] uint64_t granule_bytes() const { return device_.memory().granularity_bytes(); }
  [[nodiscard]] uint64_t room_bytes() const;
  bool grow_by_handles(uint64_t bytes, const Wanted& wanted);
  bool grow_by_segment(uint64_t bytes, const Wanted& wanted);
  [[nodiscard]] Status take(uint64_t bytes, const Wanted& wanted);
  [[nodiscard]] uint64_t growth_step_bytes() const;
  [[nodiscard]] uint64_t largest_handle_bytes() const;
  [[nodiscard]] uint64_t largest_handle_bytes_of(uint64_t bytes) const;
  [[nodiscard]] uint64_t release_handle(HandleId id);
  [[nodiscard]] NodeId free_node_of(HandleId id) const;

  Device& device_;
  const Options& options_;
  Stock& stock_;
  Stitches& stitches_;
  Arena& arena_;
  const Leases& leases_;
  Stats& stats_;
  Observer* observer_ = nullptr;
  uint64_t limit_bytes_ = std::numeric_limits<uint64_t>::max();
  uint64_t device_bytes_ = 0;
  bool is_short_ = false;  // the last request for new memory did not get all of it
};

}  // namespace vram::pool
