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

void Salvage::run() {
  if (stack_.size() > marks_.floor()) end_truncated(stack_.size() - 1, false);
  while (true) {
    const size_t first = marks_.floor();
    if (first > stack_.size()) {  // the container under this MARK was left out with another one
      static_cast<void>(marks_.pop());
      continue;
    }
    const bool owner_is_dict =
        !marks_.empty() && first > 0 && stack_[first - 1].kind() == Kind::kOpenDict;
    fold_pending(first, owner_is_dict);
    if (marks_.empty()) break;
    fold_owner();
  }
  // What remains is the root and, damaged, things next to it.
  if (stack_.size() > 1) {
    open_.close_from(1);
    stack_.truncate(1);
  }
}

// The container on top, or under the topmost MARK: nothing more will come for it.
void Salvage::end_truncated(size_t position, bool incomplete) {
  const Value value = stack_[position];
  if (value.kind() < Kind::kOpenDict || !open_.is_current(value)) return;
  const unsigned slot = OpenContainers::slot_of(value);
  if (value.kind() == Kind::kOpenList) {
    sink_.truncate_list(slot);
    return;
  }
  if (sink_.truncate_dict(slot, incomplete)) return;
  open_.discard(value);
  open_.close_from(position);
  stack_.truncate(position);
}

// `list item` waiting for APPEND and `dict key value` waiting for SETITEM, which have no MARK.
void Salvage::fold_pending(size_t first, bool owner_is_dict) {
  while (fold_one(first, owner_is_dict)) {
  }
}

bool Salvage::fold_one(size_t first, bool owner_is_dict) {
  const size_t count = stack_.size() - first;
  if (count < 2) return false;
  const Kind top = stack_.back().kind();
  // A key without its value.
  if (top == Kind::kText &&
      ((owner_is_dict && count % 2 == 1) || stack_[stack_.size() - 2].kind() == Kind::kOpenDict)) {
    stack_.truncate(stack_.size() - 1);
    if (stack_.back().kind() == Kind::kOpenDict) end_truncated(stack_.size() - 1, true);
    return true;
  }
  const size_t below = stack_.size() - 2;
  if (stack_[below].kind() == Kind::kOpenList) {
    // Under a list's MARK they may be two items of that list.
    const bool owner_is_list = !marks_.empty() && !owner_is_dict;
    const bool siblings = owner_is_list && (open_.is_touched(stack_[below]) ||
                                            top == Kind::kOpenList || top == Kind::kText);
    if (siblings) return false;
    open_.close_from(below + 1);
    sink_.append(OpenContainers::slot_of(stack_[below]), stack_.from(below + 1));
    stack_.truncate(below + 1);
    end_truncated(below, true);
    return true;
  }
  if (count >= 3 && stack_[stack_.size() - 3].kind() == Kind::kOpenDict &&
      stack_[below].kind() == Kind::kText) {
    const size_t dict = stack_.size() - 3;
    open_.close_from(below);
    sink_.set_items(OpenContainers::slot_of(stack_[dict]), stack_.from(below));
    stack_.truncate(below);
    end_truncated(dict, true);
    return true;
  }
  return false;
}

// The container under the topmost MARK takes what is complete above it.
void Salvage::fold_owner() {
  const size_t first = marks_.pop();
  open_.close_from(first);
  if (first == 0) {
    stack_.truncate(0);
    return;
  }
  const Value owner = stack_[first - 1];
  const size_t count = stack_.size() - first;
  if (owner.kind() == Kind::kOpenList) {
    sink_.append(OpenContainers::slot_of(owner), stack_.from(first));
  } else if (owner.kind() == Kind::kOpenDict) {
    sink_.set_items(OpenContainers::slot_of(owner), stack_.from(first).first(count - count % 2));
  }
  stack_.truncate(first);
  end_truncated(first - 1, true);
}

}  // namespace vram::trace::pickle
