// When is a container complete? Pickle never says so; these are the rules that tell.
#include "trace/import/pickle/machine.hpp"

namespace vram::trace::pickle {

// Called before a container is pushed: a dictionary right below it, with no MARK between, is
// complete, because what follows could only be its key, and a container is none. So the million
// dictionaries of one list are closed one by one.
void Machine::close_settled() {
  if (order_count_ == 0) return;
  const Open& last = open_[order_[order_count_ - 1]];
  if (last.is_dict && last.position + 1 == stack_.size() && last.position >= floor()) {
    close_at(order_count_ - 1);
  }
}

// Other neighbours may still be one the value, item or tuple element of the other; but no recording
// nests that deep without a MARK, so the first of many are complete.
bool Machine::close_oldest_of_run() {
  size_t first = 0;
  while (first < order_count_ && open_[order_[first]].position < floor()) ++first;
  const size_t count = (order_count_ - first) / 2;
  for (size_t i = 0; i < count; ++i) close_at(first);
  return count > 0;
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
