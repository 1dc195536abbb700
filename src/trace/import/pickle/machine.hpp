// Machine: decodes a pickle of plain data (dictionaries, lists, tuples, texts, numbers) into a
// Sink, in one pass over a small window. It does not interpret the data, builds no tree, and
// executes nothing: every opcode that could refer to code is refused by name. Input is untrusted:
// depth, texts, memo, stack and total memory are bounded in proportion to the bytes read. Use it
// from one thread.
//
//     ByteWindow ──▶ Machine ──▶ OpenContainers    those being filled, and when one is complete
//                          └───▶ memo, marks, stack of values
//                   truncated ──▶ Salvage   what is complete on the stack
#pragma once

#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/import/pickle/open_containers.hpp"
#include "trace/import/pickle/sink.hpp"
#include "trace/import/pickle/value.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::trace::pickle {

// The pickle opcodes by their names in Python's pickletools, and which of them this reader refuses
// and why.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

// Bytes that always follow an opcode (for texts and big numbers: their length field).
inline constexpr std::array<uint8_t, 256> kOperandBytes = [] {
  std::array<uint8_t, 256> bytes = {};
  for (const Opcode op : {kBinInt1, kBinGet, kBinPut, kProto, kLong1, kShortBinUnicode,
                          kShortBinBytes, kShortBinString}) {
    bytes[op] = 1;
  }
  bytes[kBinInt2] = 2;
  for (const Opcode op :
       {kBinInt, kLongBinGet, kLongBinPut, kBinUnicode, kBinBytes, kBinString, kLong4}) {
    bytes[op] = 4;
  }
  for (const Opcode op : {kBinFloat, kFrame, kBinUnicode8, kBinBytes8, kByteArray8}) bytes[op] = 8;
  return bytes;
}();

enum class Refusal : uint8_t {
  kUnknown,  // no opcode at all
  kCode,     // names code, or objects outside the file: refused on principle
  kText,     // of the old text protocols 0 and 1
  kSet,      // harmless, but never in a recording
};

struct RefusedOpcode {
  std::string_view name;
  Refusal why = Refusal::kUnknown;
};

// For any byte that is not in Opcode.
[[nodiscard]] RefusedOpcode refused_opcode(uint8_t byte);

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

  // machine_rare.cpp: everything else
  [[nodiscard]] bool get_open(uint64_t index, const Value& value);
  [[nodiscard]] bool not_open(const Value& target, const char* opcode, const char* wanted);
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

  ByteWindow& window_;
  Sink& sink_;
  Limits limits_;
  const uint8_t* end_ = nullptr;       // of the window
  const uint8_t* op_start_ = nullptr;  // of the opcode at work, for messages
  State state_ = State::kRunning;
  std::optional<Error> error_;
  unsigned protocol_ = 0;

  ValueStack stack_;
  Marks marks_;
  Memo memo_;
  OpenContainers open_{stack_, marks_, memo_, sink_};
  uint64_t max_small_ = 0;  // stack cells and memo slots allowed by now
};

}  // namespace vram::trace::pickle
