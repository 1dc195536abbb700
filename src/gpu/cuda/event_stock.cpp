#include "gpu/cuda/event_stock.hpp"

namespace vram::gpu::cuda {

EventHandle EventStock::take() {
  const std::scoped_lock lock(slots_mutex_);
  if (idle_.empty()) return 0;
  const uint32_t index = idle_.back();
  idle_.pop_back();
  slots_[index].in_use = true;
  return handle_of(index, slots_[index]);
}

EventHandle EventStock::add(CUevent event) {
  const std::scoped_lock lock(slots_mutex_);
  const auto index = static_cast<uint32_t>(slots_.size());
  slots_.push_back({.event = event, .generation = 1, .in_use = true});
  idle_.reserve(slots_.capacity());
  return handle_of(index, slots_.back());
}

CUevent EventStock::find(EventHandle handle) const {
  const std::scoped_lock lock(slots_mutex_);
  const Slot* const slot = slot_of(handle);
  return slot == nullptr ? nullptr : slot->event;
}

bool EventStock::give_back(EventHandle handle) {
  const std::scoped_lock lock(slots_mutex_);
  if (slot_of(handle) == nullptr) return false;
  const auto index = static_cast<uint32_t>(handle);
  Slot& slot = slots_[index];
  slot.in_use = false;
  if (++slot.generation == 0) slot.generation = 1;  // a handle is never 0
  idle_.push_back(index);
  return true;
}

std::vector<CUevent> EventStock::drain() {
  const std::scoped_lock lock(slots_mutex_);
  std::vector<CUevent> events;
  for (const Slot& slot : slots_) events.push_back(slot.event);
  slots_.clear();
  idle_.clear();
  return events;
}

const EventStock::Slot* EventStock::slot_of(EventHandle handle) const {
  const auto index = static_cast<uint32_t>(handle);
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.in_use && handle_of(index, slot) == handle ? &slot : nullptr;
}

}  // namespace vram::gpu::cuda
