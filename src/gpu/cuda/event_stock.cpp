#include "gpu/cuda/event_stock.hpp"

#include <utility>

namespace vram::gpu::cuda {

EventHandle EventStock::take() {
  const std::scoped_lock lock(slots_mutex_);
  if (idle_.empty()) return 0;
  const uint32_t index = idle_.back();
  idle_.pop_back();
  slots_[index].in_use = true;
  return handle_of(index, slots_[index]);
}

EventHandle EventStock::add(CUevent event, bool serves_once) {
  const std::scoped_lock lock(slots_mutex_);
  if (empty_.empty()) {
    slots_.emplace_back();
    idle_.reserve(slots_.capacity());
    empty_.reserve(slots_.capacity());
    empty_.push_back(static_cast<uint32_t>(slots_.size() - 1));
  }
  const uint32_t index = empty_.back();
  empty_.pop_back();
  slots_[index].event = event;
  slots_[index].in_use = true;
  slots_[index].serves_once = serves_once;
  return handle_of(index, slots_[index]);
}

bool EventStock::serves_once(EventHandle handle) const {
  const std::scoped_lock lock(slots_mutex_);
  const Slot* const slot = slot_of(handle);
  return slot != nullptr && slot->serves_once;
}

CUevent EventStock::find(EventHandle handle) const {
  const std::scoped_lock lock(slots_mutex_);
  const Slot* const slot = slot_of(handle);
  return slot == nullptr ? nullptr : slot->event;
}

bool EventStock::give_back(EventHandle handle) {
  const std::scoped_lock lock(slots_mutex_);
  if (slot_of(handle) == nullptr) return false;
  idle_.push_back(end_use(handle));
  return true;
}

CUevent EventStock::take_out(EventHandle handle) {
  const std::scoped_lock lock(slots_mutex_);
  if (slot_of(handle) == nullptr) return nullptr;
  const uint32_t index = end_use(handle);
  empty_.push_back(index);
  return std::exchange(slots_[index].event, nullptr);
}

uint32_t EventStock::end_use(EventHandle handle) {
  const auto index = static_cast<uint32_t>(handle);
  Slot& slot = slots_[index];
  slot.in_use = false;
  if (++slot.generation == 0) slot.generation = 1;  // a handle is never 0
  return index;
}

std::vector<CUevent> EventStock::drain() {
  const std::scoped_lock lock(slots_mutex_);
  std::vector<CUevent> events;
  for (const Slot& slot : slots_) {
    if (slot.event != nullptr) events.push_back(slot.event);
  }
  slots_.clear();
  idle_.clear();
  empty_.clear();
  return events;
}

const EventStock::Slot* EventStock::slot_of(EventHandle handle) const {
  const auto index = static_cast<uint32_t>(handle);
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.in_use && handle_of(index, slot) == handle ? &slot : nullptr;
}

}  // namespace vram::gpu::cuda
