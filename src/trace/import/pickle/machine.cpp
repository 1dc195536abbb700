#include "trace/import/pickle/machine.hpp"

#include "base/bytes.hpp"
#include "base/memory.hpp"
#include "trace/import/pickle/open_containers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace vram::trace::pickle {
namespace {

// Little-endian loads, as the format stores them; g++ makes one instruction of each.
template <typename T>
T load(const uint8_t* at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

constexpr uint64_t kFreeCells = uint64_t{1} << 20;  // what a small file may use

struct Row {
  uint8_t byte;
  RefusedOpcode opcode;
};

constexpr std::array kRefused = {
    Row{'c', {"GLOBAL", Refusal::kCode}},
    Row{0x93, {"STACK_GLOBAL", Refusal::kCode}},
    Row{'R', {"REDUCE", Refusal::kCode}},
    Row{'b', {"BUILD", Refusal::kCode}},
    Row{'i', {"INST", Refusal::kCode}},
    Row{'o', {"OBJ", Refusal::kCode}},
    Row{0x81, {"NEWOBJ", Refusal::kCode}},
    Row{0x92, {"NEWOBJ_EX", Refusal::kCode}},
    Row{0x82, {"EXT1", Refusal::kCode}},
    Row{0x83, {"EXT2", Refusal::kCode}},
    Row{0x84, {"EXT4", Refusal::kCode}},
    Row{'P', {"PERSID", Refusal::kCode}},
    Row{'Q', {"BINPERSID", Refusal::kCode}},
    Row{0x97, {"NEXT_BUFFER", Refusal::kCode}},
    Row{0x98, {"READONLY_BUFFER", Refusal::kCode}},
    Row{'F', {"FLOAT", Refusal::kText}},
    Row{'I', {"INT", Refusal::kText}},
    Row{'L', {"LONG", Refusal::kText}},
    Row{'S', {"STRING", Refusal::kText}},
    Row{'V', {"UNICODE", Refusal::kText}},
    Row{'d', {"DICT", Refusal::kText}},
    Row{'l', {"LIST", Refusal::kText}},
    Row{'g', {"GET", Refusal::kText}},
    Row{'p', {"PUT", Refusal::kText}},
    Row{0x8f, {"EMPTY_SET", Refusal::kSet}},
    Row{0x90, {"ADDITEMS", Refusal::kSet}},
    Row{0x91, {"FROZENSET", Refusal::kSet}},
};

}  // namespace

Machine::Machine(ByteWindow& window, Sink& sink, const Limits& limits)
    : window_(window), sink_(sink), limits_(limits), max_small_(kFreeCells) {
  if (limits_.max_memory_bytes == 0) limits_.max_memory_bytes = default_memory_limit_bytes();
}

Result<Outcome> Machine::run() {
  loop();
  if (sink_.error()) return tl::unexpected(*sink_.error());
  if (state_ == State::kFailed) return tl::unexpected(*error_);
  Outcome outcome;
  if (state_ == State::kTruncated) {
    outcome.truncated_at_byte = window_.offset_of(end_);
    Salvage(stack_, marks_, open_, sink_).run();
    if (sink_.error()) return tl::unexpected(*sink_.error());
  }
  open_.close_from(0);
  if (sink_.error()) return tl::unexpected(*sink_.error());
  if (!stack_.empty()) outcome.root = stack_.back();
  outcome.protocol = protocol_;
  return outcome;
}

inline bool Machine::mark() {
  if (marks_.full()) {
    return fail_with({Code::kTooLarge, trf("data nested deeper than {} levels at byte {}",
                                           Marks::kMaxMarks / 2, offset())});
  }
  marks_.push(stack_.size());
  return true;
}

inline bool Machine::get(uint64_t index) {
  if (index >= memo_.size()) [[unlikely]]
    return get_open(index, Value::unset());
  const Value value = memo_[index];
  if (!value.is_settled()) [[unlikely]]
    return get_open(index, value);
  push(value);
  return true;
}

// Deep stacks are runs of these: a loop of its own, in registers.
inline bool Machine::get_run(const uint8_t*& at) {
  const std::span<const Value> slots = memo_.slots();
  Value* top = stack_.top();
  const uint8_t* next = at;
  while (*next == kLongBinGet && end_ - next >= 16) {
    const uint64_t index = load<uint32_t>(next + 1);
    if (index >= slots.size() || !slots[index].is_settled()) [[unlikely]]
      break;
    *top++ = slots[index];
    next += 5;
  }
  stack_.set_top(top);
  if (next == at) {  // the first one is special, or near the window's end
    at += 5;
    return get(load<uint32_t>(next + 1));
  }
  at = next;
  return true;
}

inline bool Machine::memoize() {
  if (memo_.used() != memo_.size() || stack_.size() <= marks_.floor()) [[unlikely]] {
    return put(memo_.used());
  }
  const Value& top = stack_.back();
  if (top.kind() >= Kind::kOpenDict) open_.stored(top, memo_.size());
  memo_.append(top);
  if (memo_.size() > max_small_) [[unlikely]]
    return put(memo_.size());
  return true;
}

inline bool Machine::long1(const uint8_t*& at) {
  const uint8_t length = at[1];
  if (length == 0 || length > 8 || end_ - at < 2 + length) [[unlikely]]
    return big_int(at, length, 2);
  const unsigned unused_bits = 64 - 8U * length;
  // The window is readable past its end; the bits that are not ours are shifted out.
  push_int(static_cast<int64_t>(load<uint64_t>(at + 2) << unused_bits) >> unused_bits);
  at += 2 + length;
  return true;
}

inline bool Machine::short_text(const uint8_t*& at) {
  const uint8_t length = at[1];
  at += 2;
  if (end_ - at < length) [[unlikely]]
    return text(at, length);
  push({Kind::kText, sink_.text({reinterpret_cast<const char*>(at), length})});
  at += length;
  return true;
}

// Only common opcodes are here, so that they stay close together in the instruction cache.
inline bool Machine::step(const uint8_t*& at) {
  const uint8_t* const operand = at + 1;
  switch (*at) {
    case kBinGet:
      at += 2;
      return get(*operand);
    case kLongBinGet:
      return get_run(at);
    case kMemoize:
      at += 1;
      return memoize();
    case kMark:
      at += 1;
      return mark();
    case kLong1:
      return long1(at);
    case kBinInt1:
      at += 2;
      push_int(*operand);
      return true;
    case kBinInt2:
      at += 3;
      push_int(load<uint16_t>(operand));
      return true;
    case kBinInt:
      at += 5;
      push_int(load<int32_t>(operand));
      return true;
    case kEmptyDict:
      at += 1;
      return begin(Kind::kOpenDict);
    case kEmptyList:
      at += 1;
      return begin(Kind::kOpenList);
    case kSetItems:
      at += 1;
      return marks_.empty() ? underflow("SETITEMS") : set_items(marks_.pop());
    case kAppends:
      at += 1;
      return marks_.empty() ? underflow("APPENDS") : append_items(marks_.pop());
    case kShortBinUnicode:
      return short_text(at);
    default:
      return rare(at);
  }
}

void Machine::loop() {
  const uint8_t* at = op_start_ = window_.begin();
  end_ = window_.end();
  stack_.make_room(static_cast<size_t>(end_ - at));
  while (true) {
    op_start_ = at;
    // Every fixed operand fits in 16 bytes: one comparison guards them all, far from the window's
    // end.
    if (end_ - at < 16) [[unlikely]] {
      if (!refill(at, 16)) return;
      if (at == end_ || end_ - at < 1 + kOperandBytes[*at]) {
        state_ = State::kTruncated;
        return;
      }
    }
    if (!step(at)) [[unlikely]]
      return;
  }
}

bool Machine::refill(const uint8_t*& at, size_t wanted) {
  if (sink_.error()) return false;
  const bool whole = window_.refill(at, wanted);
  at = op_start_ = window_.begin();
  end_ = window_.end();
  stack_.make_room(static_cast<size_t>(end_ - at));
  if (!whole) return fail_with(*window_.error());
  // Real recordings need a stack cell for 30 bytes and a memo slot for 5 bytes or more.
  max_small_ = kFreeCells + window_.offset_of(end_) / 4;
  memo_.compact();
  const uint64_t used_bytes =
      sink_.memory_bytes() + memo_.memory_bytes() + stack_.size() * sizeof(Value);
  if (used_bytes > limits_.max_memory_bytes) {
    return fail_with({Code::kTooLarge, trf("reading needs more than {} of memory (at byte {})",
                                           format_bytes(limits_.max_memory_bytes), offset())});
  }
  if (stack_.size() > max_small_) {
    return fail_with({Code::kTooLarge, trf("a list of {} values that are not in any use "
                                           "ends before byte {}: not a recording",
                                           stack_.size(), offset())});
  }
  return true;
}

bool Machine::begin(Kind kind) {
  if (open_.begin(kind)) return true;
  return fail_with(
      {Code::kTooLarge, trf("data nested deeper than {} levels at byte {}", kMaxOpen, offset())});
}

bool Machine::set_items(size_t first_item) {
  const size_t count = stack_.size() - first_item;
  if (first_item < marks_.floor() + 1 || count % 2 != 0) return underflow("SETITEM(S)");
  open_.close_from(first_item);
  const Value& target = stack_[first_item - 1];
  if (target.kind() != Kind::kOpenDict) return not_open(target, "SETITEM(S)", "a dictionary");
  open_.touch(target);
  sink_.set_items(OpenContainers::slot_of(target), stack_.from(first_item));
  stack_.truncate(first_item);
  return true;
}

bool Machine::append_items(size_t first_item) {
  if (first_item < marks_.floor() + 1) return underflow("APPEND(S)");
  open_.close_from(first_item);
  const Value& target = stack_[first_item - 1];
  if (target.kind() != Kind::kOpenList) return not_open(target, "APPEND(S)", "a list");
  open_.touch(target);
  sink_.append(OpenContainers::slot_of(target), stack_.from(first_item));
  stack_.truncate(first_item);
  return true;
}

RefusedOpcode refused_opcode(uint8_t byte) {
  for (const Row& row : kRefused) {
    if (row.byte == byte) return row.opcode;
  }
  return {};
}

}  // namespace vram::trace::pickle
