#include "trace/import/pickle/salvage.hpp"

namespace vram::trace::pickle {

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
