// EventStock: the driver's events, made once and used again: recording one that exists costs a
// third of making one. Stands inside CudaMemory.
//
// Handles carry a generation, so that one that was given back is known as such and never names the
// next user's event. Any thread; a lock held for a few instructions, never across a driver call.
// Allocates as the number of events in use grows to a new height.
#pragma once

#include "gpu/cuda/driver_types.hpp"
#include "gpu/memory.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace vram::gpu::cuda {

class EventStock {
 public:
  // An event nobody uses, which is now the caller's; 0 where there is none: add() one.
  [[nodiscard]] EventHandle take();
  // Takes in an event just made; it is the caller's.
  [[nodiscard]] EventHandle add(CUevent event);
  // The event of a handle in use, else null.
  [[nodiscard]] CUevent find(EventHandle handle) const;
  // False where the handle is not in use.
  [[nodiscard]] bool give_back(EventHandle handle);
  // The event of a handle in use, which is nobody's from then on, else null.
  [[nodiscard]] CUevent take_out(EventHandle handle);
  // All events that it has, whether in use or not; the stock forgets them.
  [[nodiscard]] std::vector<CUevent> drain();

 private:
  struct Slot {
    CUevent event = nullptr;
    uint32_t generation = 1;
    bool in_use = false;
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
