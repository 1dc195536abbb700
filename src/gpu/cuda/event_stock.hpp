// EventStock: a pool of the driver's events: recording an existing event takes a third of the time
// of creating one. Part of CudaMemory.
//
// A handle contains a generation, so that a stale handle is detected and never refers to the next
// user's event. May be called from any thread; its lock is held for a few instructions, never
// across a driver call. Allocates only when more events are in use than ever before.
#pragma once

#include "gpu/cuda/driver_types.hpp"
#include "gpu/memory.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace vram::gpu::cuda {

class EventStock {
 public:
  // Returns an unused event to the caller; 0 if there is none: add() one.
  [[nodiscard]] EventHandle take();
  // Takes in an event just made; it is the caller's. One of another context serves once.
  [[nodiscard]] EventHandle add(CUevent event, bool serves_once = false);
  // Whether the event of a handle in use must be taken out instead of given back.
  [[nodiscard]] bool serves_once(EventHandle handle) const;
  // The event of a handle in use, else null.
  [[nodiscard]] CUevent find(EventHandle handle) const;
  // Returns false if the handle is not in use.
  [[nodiscard]] bool give_back(EventHandle handle);
  // Removes and returns the event of a handle in use, else null.
  [[nodiscard]] CUevent take_out(EventHandle handle);
  // All events that it has, whether in use or not; the stock forgets them.
  [[nodiscard]] std::vector<CUevent> drain();

 private:
  struct Slot {
    CUevent event = nullptr;
    uint32_t generation = 1;
    bool in_use = false;
    bool serves_once = false;
  };
  [[nodiscard]] static EventHandle handle_of(uint32_t index, const Slot& slot) {
    return uint64_t{slot.generation} << 32 | index;
  }
  [[nodiscard]] const Slot* slot_of(EventHandle handle) const;
  // With the lock held, of a handle in use: its slot.
  uint32_t end_use(EventHandle handle);

  mutable std::mutex slots_mutex_;
  std::vector<Slot> slots_;
  // With room for all slots, so that giving back and taking out never allocate.
  std::vector<uint32_t> idle_;
  std::vector<uint32_t> empty_;
};

}  // namespace vram::gpu::cuda
