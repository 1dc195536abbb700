// Machine: decodes a pickle of plain data (dictionaries, lists, tuples, texts, numbers) into a
// Sink, in one pass over a small window. It does not interpret the data, builds no tree, and
// executes nothing: every opcode that could refer to code is refused by name. Input is untrusted:
// depth, texts, memo, stack and total memory are bounded in proportion to the bytes read. Use it
// from one thread.
//
// A container is "open" from its opcode until it is used: its parent takes it, a memo reference
// names it, or its position on the stack shows that nothing can be added. Then it is closed: the
// sink makes a record of it, which also replaces it in the memo. A container that changes later
// would contain itself, which no recording does.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/import/bytes/window.hpp"
#include "trace/import/pickle/memo.hpp"
#include "trace/import/pickle/opcodes.hpp"
#include "trace/import/pickle/sink.hpp"
#include "trace/import/pickle/value.hpp"
#include "trace/import/pickle/value_stack.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace vram::trace::pickle {

struct Limits {
  uint64_t max_text_bytes = uint64_t{16} << 20;
  uint64_t max_memory_bytes = 0;  // 0: most of the machine's memory
};

struct Outcome {
  Value root;
  unsigned protocol = 0;
  std::optional<uint64_t> truncated_at_byte;  // then the root holds what was complete
};

class Machine {
 public:
  Machine(ByteWindow& window, Sink& sink, const Limits& limits = {});
  [[nodiscard]] Result<Outcome> run();

 private:
  enum class State : uint8_t { kRunning, kStopped, kTruncated, kFailed };
  struct Open {
    // To distinguish a stale handle from a new user of the slot.
    uint64_t generation = 0;
    size_t position = 0;  // on the stack
    int64_t memo_slot = -1;
    bool is_dict = false;
    bool touched = false;  // an APPEND(S) or SETITEM(S) has reached it
  };
  static constexpr size_t kMaxMarks = 2 * kMaxOpen;

  // machine.cpp: the loop and what runs for every event
  void loop();
  [[nodiscard, gnu::always_inline]] inline bool step(const uint8_t*& at);
  [[nodiscard]] bool refill(const uint8_t*& at, size_t wanted);
  void push(const Value& value) { stack_.push(value); }
  void push_int(int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    push(Value::fits(value) ? Value(Kind::kInt, bits) : Value(Kind::kWideInt, sink_.number(bits)));
  }
  [[nodiscard, gnu::always_inline]] inline bool mark();
  [[nodiscard]] bool begin(Kind kind);
  [[nodiscard]] bool set_items(size_t first_item);
  [[nodiscard]] bool append_items(size_t first_item);
  [[nodiscard, gnu::always_inline]] inline bool get(uint64_t index);
  [[nodiscard, gnu::always_inline]] inline bool get_run(const uint8_t*& at);
  [[nodiscard, gnu::always_inline]] inline bool memoize();
  [[nodiscard, gnu::always_inline]] inline bool long1(const uint8_t*& at);
  [[nodiscard]] bool short_text(const uint8_t*& at);

  // machine_containers.cpp: opening, closing, and the rules of who may still change
  [[nodiscard]] unsigned slot_of(const Value& open) const { return open.payload() & 0xff; }
  [[nodiscard]] bool is_current(const Value& open) const {
    return open_[slot_of(open)].generation == open.payload() >> 8;
  }
  [[nodiscard]] size_t floor() const { return marks_count_ == 0 ? 0 : marks_[marks_count_ - 1]; }
  void close_settled();
  bool close_oldest_of_run();
  void close_from(size_t position);
  void close_at(size_t order_index);
  void close(unsigned slot);
  void release(unsigned slot);
  [[nodiscard]] bool get_open(uint64_t index, const Value& value);
  [[nodiscard]] bool not_open(const Value& target, const char* opcode, const char* wanted);

  // machine_rare.cpp: everything else
  [[nodiscard]] bool rare(const uint8_t*& at);
  [[nodiscard]] bool put(uint64_t index);
  [[nodiscard]] bool tuple(size_t count);
  [[nodiscard]] bool tuple_from_mark();
  [[nodiscard]] bool pop();
  [[nodiscard]] bool pop_mark();
  [[nodiscard]] bool dup();
  [[nodiscard]] bool text(const uint8_t*& at, uint64_t length);
  [[nodiscard]] bool skip_bytes(const uint8_t*& at, uint64_t length);
  [[nodiscard]] bool big_int(const uint8_t*& at, uint64_t length, size_t header);
  [[nodiscard]] bool refuse(uint8_t opcode, const uint8_t* at);
  [[nodiscard]] bool underflow(const char* opcode);
  bool fail_with(Error error);
  [[nodiscard]] uint64_t offset() const { return window_.offset_of(op_start_); }

  // machine_truncated.cpp: what can be saved when the input ends early
  void salvage();
  void fold_pending(size_t first, bool owner_is_dict);
  bool fold_one(size_t first, bool owner_is_dict);
  void fold_owner();
  void end_truncated(size_t position, bool incomplete);

  ByteWindow& window_;
  Sink& sink_;
  Limits limits_;
  const uint8_t* end_ = nullptr;       // of the window
  const uint8_t* op_start_ = nullptr;  // of the opcode at work, for messages
  State state_ = State::kRunning;
  std::optional<Error> error_;
  unsigned protocol_ = 0;

  ValueStack stack_;
  std::array<size_t, kMaxMarks> marks_ = {};  // stack sizes at each MARK
  size_t marks_count_ = 0;
  Memo memo_;
  std::array<Open, kMaxOpen> open_;
  std::array<unsigned, kMaxOpen> free_slots_ = {};
  size_t free_count_ = 0;
  std::array<unsigned, kMaxOpen> order_ = {};  // open slots by stack position
  size_t order_count_ = 0;
  uint64_t next_generation_ = 1;
  uint64_t max_small_ = 0;  // stack cells and memo slots allowed by now
};

}  // namespace vram::trace::pickle
