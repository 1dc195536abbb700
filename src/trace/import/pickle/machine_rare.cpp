// Opcodes that a recording has few of, and the words for those it may not have.
#include "base/bytes.hpp"
#include "trace/import/pickle/machine.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace vram::trace::pickle {
namespace {

uint64_t load_length(const uint8_t* at, size_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

uint64_t load_big_endian(const uint8_t* at) {
  uint64_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  return __builtin_bswap64(value);
}

}  // namespace

// size: a switch with one line for every opcode; cutting it in two would hide which are missing.
bool Machine::rare(const uint8_t*& at) {
  const uint8_t opcode = *at;
  const uint8_t* const operand = at + 1;
  const size_t operand_bytes = kOperandBytes[opcode];
  const uint64_t number = load_length(operand, operand_bytes);
  at += 1 + operand_bytes;
  switch (opcode) {
    case kNone:
      push({});
      return true;
    case kNewTrue:
      push({Kind::kBool, 1});
      return true;
    case kNewFalse:
      push({Kind::kBool, 0});
      return true;
    case kBinFloat:
      push({Kind::kFloat, sink_.number(load_big_endian(operand))});
      return true;
    case kLong4:
      at = operand - 1;
      return big_int(at, number, 5);
    case kBinUnicode:
    case kBinUnicode8:
    case kBinString:
    case kShortBinString:
      return text(at, number);
    case kBinBytes:
    case kShortBinBytes:
    case kBinBytes8:
    case kByteArray8:
      return skip_bytes(at, number);
    case kEmptyTuple:
      return tuple(0);
    case kTuple1:
      return tuple(1);
    case kTuple2:
      return tuple(2);
    case kTuple3:
      return tuple(3);
    case kTuple:
      return tuple_from_mark();
    case kSetItem:
      return stack_.size() < marks_.floor() + 3 ? underflow("SETITEM")
                                                : set_items(stack_.size() - 2);
    case kAppend:
      return stack_.size() < marks_.floor() + 2 ? underflow("APPEND")
                                                : append_items(stack_.size() - 1);
    case kBinPut:
    case kLongBinPut:
      return put(number);
    case kPop:
      return pop();
    case kPopMark:
      return pop_mark();
    case kDup:
      return dup();
    case kProto:
      protocol_ = static_cast<unsigned>(number);
      return true;
    case kFrame:
      return true;  // a hint to readers that cannot stream
    case kStop:
      state_ = State::kStopped;
      return stack_.empty() ? underflow("STOP") : false;
    default:
      return refuse(opcode, operand - 1);
  }
}

bool Machine::put(uint64_t index) {
  if (stack_.size() <= marks_.floor()) return underflow("PUT");
  if (index >= max_small_) {
    return fail_with(
        {Code::kTooLarge,
         trf("memo entry {} at byte {} is out of proportion to the file", index, offset())});
  }
  const Value top = stack_.back();
  if (top.kind() >= Kind::kOpenDict) open_.stored(top, index);
  memo_.store(index, top);
  return true;
}

bool Machine::get_open(uint64_t index, const Value& value) {
  if (const Value found = memo_.find(index); found.is_settled()) {
    push(found);
    return true;
  }
  if (value.kind() == Kind::kUnset) {
    return fail_with(
        {Code::kBadInput,
         trf("byte {} refers to memo entry {}, which nothing has stored", offset(), index)});
  }
  if (!open_.is_current(value)) {
    return fail_with(
        {Code::kBadInput, trf("byte {} refers to memo entry {}, a container stored twice while "
                              "it was being filled: no recording does that",
                              offset(), index)});
  }
  open_.close_current(value);
  push(memo_[index]);
  return true;
}

bool Machine::not_open(const Value& target, const char* opcode, const char* wanted) {
  if (target.kind() == Kind::kRecord) {
    return fail_with(
        {Code::kBadInput, trf("{} at byte {} changes a container after it was used: the data "
                              "refers to itself, which no recording does",
                              opcode, offset())});
  }
  return fail_with({Code::kBadInput, trf("{} at byte {} needs {} and finds something else", opcode,
                                         offset(), wanted)});
}

bool Machine::tuple(size_t count) {
  if (stack_.size() < marks_.floor() + count) return underflow("TUPLE");
  const size_t first = stack_.size() - count;
  open_.close_from(first);
  const Value record = sink_.tuple(stack_.from(first));
  stack_.truncate(first);
  push(record);
  return true;
}

bool Machine::tuple_from_mark() {
  if (marks_.empty()) return underflow("TUPLE");
  const size_t first = marks_.pop();
  return tuple(stack_.size() - first);
}

bool Machine::pop() {
  if (stack_.size() <= marks_.floor()) {
    // As Python: POP on a bare MARK removes the mark.
    if (marks_.empty()) return underflow("POP");
    static_cast<void>(marks_.pop());
    return true;
  }
  open_.close_from(stack_.size() - 1);
  stack_.truncate(stack_.size() - 1);
  return true;
}

bool Machine::pop_mark() {
  if (marks_.empty()) return underflow("POP_MARK");
  const size_t first = marks_.pop();
  open_.close_from(first);
  stack_.truncate(first);
  return true;
}

bool Machine::dup() {
  if (stack_.size() <= marks_.floor()) return underflow("DUP");
  open_.close_from(stack_.size() - 1);
  push(Value(stack_.back()));
  return true;
}

bool Machine::text(const uint8_t*& at, uint64_t length) {
  if (length > limits_.max_text_bytes) {
    return fail_with({Code::kTooLarge,
                      trf("a text of {} at byte {}; the longest this reads is {}",
                          format_bytes(length), offset(), format_bytes(limits_.max_text_bytes))});
  }
  if (static_cast<uint64_t>(end_ - at) < length && !refill(at, length)) return false;
  if (static_cast<uint64_t>(end_ - at) < length) {
    state_ = State::kTruncated;
    return false;
  }
  push({Kind::kText, sink_.text({reinterpret_cast<const char*>(at), length})});
  at += length;
  return true;
}

bool Machine::skip_bytes(const uint8_t*& at, uint64_t length) {
  const uint64_t skipped = window_.skip(at, length);
  at = op_start_ = window_.begin();
  end_ = window_.end();
  stack_.make_room(static_cast<size_t>(end_ - at) + 1);
  if (window_.error()) return fail_with(*window_.error());
  if (skipped < length) {
    state_ = State::kTruncated;
    return false;
  }
  push({Kind::kOpaque, 0});
  return true;
}

// Integers of no byte, of nine and more, or at the window's end.
bool Machine::big_int(const uint8_t*& at, uint64_t length, size_t header) {
  constexpr uint64_t kMaxBytes = 64;  // more is no number of bytes of anything
  if (length > kMaxBytes) {
    return fail_with({Code::kTooLarge, trf("an integer of {} bytes at byte {}", length, offset())});
  }
  if (static_cast<size_t>(end_ - at) < header + length && !refill(at, header + length))
    return false;
  if (static_cast<size_t>(end_ - at) < header + length) {
    state_ = State::kTruncated;
    return false;
  }
  const uint8_t* const digits = at + header;
  at = digits + length;
  const bool negative = length > 0 && (digits[length - 1] & 0x80) != 0;
  const uint8_t extension = negative ? 0xff : 0x00;
  uint64_t low = negative ? ~uint64_t{0} : 0;
  std::memcpy(&low, digits, length < 8 ? length : 8);
  bool beyond = false;
  for (uint64_t i = 8; i < length; ++i) beyond = beyond || digits[i] != extension;
  const bool fits_signed = !beyond && (low >> 63 != 0) == negative;
  if (fits_signed) {
    push_int(static_cast<int64_t>(low));
  } else if (!beyond && !negative) {
    push({Kind::kUnsigned, sink_.number(low)});
  } else {
    push({Kind::kHugeInt, negative ? uint64_t{1} : 0});
  }
  return true;
}

bool Machine::refuse(uint8_t byte, const uint8_t* at) {
  const RefusedOpcode opcode = refused_opcode(byte);
  const uint64_t where = window_.offset_of(at);
  switch (opcode.why) {
    case Refusal::kCode:
      return fail_with(
          {Code::kBadInput, trf("refused: the pickle opcode {} at byte {} refers to program code "
                                "or outside objects, and a memory snapshot holds plain data only",
                                opcode.name, where)});
    case Refusal::kText:
      return fail_with(
          {Code::kUnsupported, trf("the pickle opcode {} at byte {} is of the text protocols 0 and "
                                   "1; save the recording again with pickle.dump(data, file, "
                                   "protocol=4)",
                                   opcode.name, where)});
    case Refusal::kSet:
      return fail_with(
          {Code::kBadInput, trf("the pickle opcode {} at byte {} makes a set, and a memory "
                                "snapshot has none",
                                opcode.name, where)});
    case Refusal::kUnknown:
      break;
  }
  return fail_with({Code::kBadInput, trf("expected a pickle opcode at byte {}, found the byte "
                                         "0x{:02x}: damaged, or not a pickle",
                                         where, byte)});
}

bool Machine::underflow(const char* opcode) {
  return fail_with({Code::kBadInput, trf("{} at byte {} lacks the values it works on: "
                                         "damaged, or not a pickle",
                                         opcode, offset())});
}

bool Machine::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
  state_ = State::kFailed;
  return false;
}

}  // namespace vram::trace::pickle
