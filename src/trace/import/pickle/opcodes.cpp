#include "trace/import/pickle/opcodes.hpp"

namespace vram::trace::pickle {
namespace {

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

RefusedOpcode refused_opcode(uint8_t byte) {
  for (const Row& row : kRefused) {
    if (row.byte == byte) return row.opcode;
  }
  return {};
}

}  // namespace vram::trace::pickle
