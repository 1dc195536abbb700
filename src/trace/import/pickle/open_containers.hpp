// OpenContainers: the dictionaries and lists that are being filled, each in a slot of the sink, and
// the rules for when one is complete, since pickle does not mark the end of a container.
//
// A container is "open" from its opcode until something uses it: its parent takes it in, a memo
// reference names it, or its position on the stack shows that nothing can be added any more. Then
// it is closed: the sink makes a record of it, which replaces it on the stack and in the memo. A
// container that changes after that refers to itself, which no recording does. One thread.
#pragma once

#include "trace/import/pickle/sink.hpp"
#include "trace/import/pickle/value.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace vram::trace::pickle {

// Marks: the positions of MARK opcodes on the machine's stack. Their number is limited by how deep
// containers may nest. One thread.
class Marks {
 public:
  static constexpr size_t kMaxMarks = 2 * kMaxOpen;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool full() const { return count_ == kMaxMarks; }
  // The size of the stack at the topmost mark, below which opcodes cannot reach; 0 without a mark.
  [[nodiscard]] size_t floor() const { return count_ == 0 ? 0 : positions_[count_ - 1]; }
  // Only if it is not full.
  void push(size_t position) { positions_[count_++] = position; }
  // Only if it is not empty.
  size_t pop() { return positions_[--count_]; }

 private:
  std::array<size_t, kMaxMarks> positions_ = {};
  size_t count_ = 0;
};

class OpenContainers {
 public:
  // All arguments must outlive this.
  OpenContainers(ValueStack& stack, const Marks& marks, Memo& memo, Sink& sink);

  // Pushes an empty container of that kind. False: too many are open, and none can be closed.
  [[nodiscard]] bool begin(Kind kind);

  // The slot of an open value, and whether it is still the container that the value names.
  [[nodiscard]] static unsigned slot_of(const Value& open) { return open.payload() & 0xff; }
  [[nodiscard]] bool is_current(const Value& open) const {
    return open_[slot_of(open)].generation == open.payload() >> 8;
  }
  // An APPEND(S) or SETITEM(S) has reached it.
  void touch(const Value& open) { open_[slot_of(open)].touched = true; }
  [[nodiscard]] bool is_touched(const Value& open) const { return open_[slot_of(open)].touched; }
  // The memo refers to it there, where its record will replace it.
  void stored(const Value& open, uint64_t memo_index) {
    open_[slot_of(open)].memo_slot = static_cast<int64_t>(memo_index);
  }

  // Closes all containers at that position of the stack and above it.
  void close_from(size_t position);
  // Closes it, since a reference uses it.
  void close_current(const Value& open);
  // Drops it without a record, also from the memo. The caller removes it from the stack.
  void discard(const Value& open);

 private:
  struct Open {
    uint64_t generation = 0;  // so that a stale handle differs from a new tenant of the slot
    size_t position = 0;      // on the stack
    int64_t memo_slot = -1;
    bool is_dict = false;
    bool touched = false;
  };
  void close_settled();
  bool close_oldest_of_run();
  void close_at(size_t order_index);
  void close(unsigned slot);
  void release(unsigned slot);
  void remove_at(size_t order_index);
  [[nodiscard]] size_t order_of(unsigned slot) const;

  ValueStack& stack_;
  const Marks& marks_;
  Memo& memo_;
  Sink& sink_;
  std::array<Open, kMaxOpen> open_;
  std::array<unsigned, kMaxOpen> free_slots_ = {};
  size_t free_count_ = kMaxOpen;
  std::array<unsigned, kMaxOpen> order_ = {};  // open slots by stack position
  size_t order_count_ = 0;
  uint64_t next_generation_ = 1;
};

// Salvage: when the input ends early, folds what is on the machine's stack as its opcodes would
// have done, and leaves out what is incomplete. The root remains at the bottom, perhaps still open.
// Used once; one thread.
class Salvage {
 public:
  // All arguments must outlive this.
  Salvage(ValueStack& stack, Marks& marks, OpenContainers& open, Sink& sink)
      : stack_(stack), marks_(marks), open_(open), sink_(sink) {}
  void run();

 private:
  void fold_pending(size_t first, bool owner_is_dict);
  bool fold_one(size_t first, bool owner_is_dict);
  void fold_owner();
  void end_truncated(size_t position, bool incomplete);

  ValueStack& stack_;
  Marks& marks_;
  OpenContainers& open_;
  Sink& sink_;
};

}  // namespace vram::trace::pickle
