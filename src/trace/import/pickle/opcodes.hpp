// The pickle opcodes by their names in Python's pickletools, and which of them this reader refuses
// and why.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace vram::trace::pickle {

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

}  // namespace vram::trace::pickle
