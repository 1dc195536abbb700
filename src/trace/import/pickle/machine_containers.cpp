// When is a container complete? Pickle never says so; these are the rules that tell.
#include "trace/import/pickle/machine.hpp"

namespace vram::trace::pickle {

// Called before a container is pushed. The two topmost open containers of this level are closed if
// no opcode can still add to them: SETITEM reaches a dictionary two below the top (`dict key
// value`) and never one whose "key" would be the new container; APPEND reaches a list right below
// the top.
void Machine::close_settled() {
  const size_t next = stack_.size();
  for (size_t back = std::min<size_t>(order_count_, 2); back > 0; --back) {
    const size_t index = order_count_ - back;
    const Open& open = open_[order_[index]];
    if (open.position < floor()) continue;  // a MARK stands on it: it is being filled
    const size_t distance = next - open.position;
    const bool settled = open.is_dict ? distance != 2 : distance > 1;
    if (settled) close_at(index);
  }
}

void Machine::close_from(size_t position) {
  size_t first = order_count_;
  while (first > 0 && open_[order_[first - 1]].position >= position) --first;
  // From the bottom up: the sink gets its records in the order of the file.
  for (size_t i = first; i < order_count_; ++i) close(order_[i]);
  order_count_ = first;
}

void Machine::close_at(size_t order_index) {
  close(order_[order_index]);
  for (size_t i = order_index + 1; i < order_count_; ++i) order_[i - 1] = order_[i];
  --order_count_;
}

void Machine::close(unsigned slot) {
  const Open& open = open_[slot];
  const Value record = open.is_dict ? sink_.end_dict(slot) : sink_.end_list(slot);
  stack_[open.position] = record;
  if (open.memo_slot >= 0) memo_.store(static_cast<uint64_t>(open.memo_slot), record);
  release(slot);
}

void Machine::release(unsigned slot) {
  open_[slot].generation = 0;
  free_slots_[free_count_++] = slot;
}

bool Machine::get_open(uint64_t index, const Value& value) {
  if (const Value found = memo_.find(index); found.is_settled()) {
    push(found);
    return true;
  }
  if (value.kind() == Kind::kUnset) {
    return fail_with(
        {Code::kBadInput, fmt::format("byte {} refers to memo entry {}, which nothing has stored",
                                      offset(), index)});
  }
  if (!is_current(value)) {
    return fail_with({Code::kBadInput,
                      fmt::format("byte {} refers to memo entry {}, a container stored twice while "
                                  "it was being filled: no recording does that",
                                  offset(), index)});
  }
  const unsigned slot = slot_of(value);
  for (size_t i = 0; i < order_count_; ++i) {
    if (order_[i] == slot) {
      close_at(i);
      break;
    }
  }
  push(memo_[index]);
  return true;
}

bool Machine::not_open(const Value& target, const char* opcode, const char* wanted) {
  if (target.kind() == Kind::kRecord) {
    return fail_with({Code::kBadInput,
                      fmt::format("{} at byte {} changes a container after it was used: the data "
                                  "refers to itself, which no recording does",
                                  opcode, offset())});
  }
  return fail_with({Code::kBadInput, fmt::format("{} at byte {} needs {} and finds something else",
                                                 opcode, offset(), wanted)});
}

}  // namespace vram::trace::pickle
