#include "trace/import/pickle/open_containers.hpp"

namespace vram::trace::pickle {

OpenContainers::OpenContainers(ValueStack& stack, const Marks& marks, Memo& memo, Sink& sink)
    : stack_(stack), marks_(marks), memo_(memo), sink_(sink) {
  for (unsigned i = 0; i < kMaxOpen; ++i) free_slots_[i] = kMaxOpen - 1 - i;
}

bool OpenContainers::begin(Kind kind) {
  close_settled();
  if (free_count_ == 0 && !close_oldest_of_run()) return false;
  const unsigned slot = free_slots_[--free_count_];
  const bool is_dict = kind == Kind::kOpenDict;
  open_[slot] = {next_generation_, stack_.size(), -1, is_dict, false};
  order_[order_count_++] = slot;
  stack_.push({kind, (next_generation_++ << 8 | slot) & kMaxPayload});
  is_dict ? sink_.begin_dict(slot) : sink_.begin_list(slot);
  return true;
}

// Called before a container is pushed: a dictionary right below it, with no MARK between, is
// complete, because what follows could only be its key, and a container is none. So the million
// dictionaries of one list are closed one by one.
void OpenContainers::close_settled() {
  if (order_count_ == 0) return;
  const Open& last = open_[order_[order_count_ - 1]];
  if (last.is_dict && last.position + 1 == stack_.size() && last.position >= marks_.floor()) {
    close_at(order_count_ - 1);
  }
}

// Other neighbours may still be one the value, item or tuple element of the other; but no recording
// nests that deep without a MARK, so the first of many are complete.
bool OpenContainers::close_oldest_of_run() {
  size_t first = 0;
  while (first < order_count_ && open_[order_[first]].position < marks_.floor()) ++first;
  const size_t count = (order_count_ - first) / 2;
  for (size_t i = 0; i < count; ++i) close_at(first);
  return count > 0;
}

void OpenContainers::close_from(size_t position) {
  size_t first = order_count_;
  while (first > 0 && open_[order_[first - 1]].position >= position) --first;
  // From the bottom up: the sink gets its records in the order of the file.
  for (size_t i = first; i < order_count_; ++i) close(order_[i]);
  order_count_ = first;
}

void OpenContainers::close_current(const Value& open) {
  const size_t index = order_of(slot_of(open));
  if (index < order_count_) close_at(index);
}

void OpenContainers::discard(const Value& open) {
  const unsigned slot = slot_of(open);
  const size_t index = order_of(slot);
  if (index < order_count_) remove_at(index);
  if (open_[slot].memo_slot >= 0) {
    memo_.store(static_cast<uint64_t>(open_[slot].memo_slot), Value{});
  }
  release(slot);
}

void OpenContainers::close_at(size_t order_index) {
  close(order_[order_index]);
  remove_at(order_index);
}

void OpenContainers::close(unsigned slot) {
  const Open& open = open_[slot];
  const Value record = open.is_dict ? sink_.end_dict(slot) : sink_.end_list(slot);
  stack_[open.position] = record;
  if (open.memo_slot >= 0) memo_.store(static_cast<uint64_t>(open.memo_slot), record);
  release(slot);
}

void OpenContainers::release(unsigned slot) {
  open_[slot].generation = 0;
  free_slots_[free_count_++] = slot;
}

void OpenContainers::remove_at(size_t order_index) {
  for (size_t i = order_index + 1; i < order_count_; ++i) order_[i - 1] = order_[i];
  --order_count_;
}

size_t OpenContainers::order_of(unsigned slot) const {
  size_t index = 0;
  while (index < order_count_ && order_[index] != slot) ++index;
  return index;
}

}  // namespace vram::trace::pickle
