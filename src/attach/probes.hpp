// Probes: the static probes (USDT) that a library contains, as its ELF notes describe them: where
// each is, the counter that switches it on, and where its arguments are when it is reached. Pure
// functions of a file's contents, which are not trusted. x86-64 only.
//
// https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation describes the notes.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::attach {

// The registers of x86-64 as the kernel passes them to a probe's program.
struct Registers {
  uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8;
  uint64_t rax, rcx, rdx, rsi, rdi, original_rax, rip, cs, flags, rsp, ss;
};

// A register, named by its offset in Registers.
using RegisterOffset = int16_t;
inline constexpr RegisterOffset kNoRegister = -1;

// Where an argument is: "-4@%esi", "8@-24(%rbp)", "8@(%rax,%rcx,8)", "4@$7".
struct Operand {
  enum class Kind : uint8_t { kConstant, kRegister, kMemory };
  Kind kind = Kind::kConstant;
  uint8_t size_bytes = 8;  // 1, 2, 4 or 8
  bool is_signed = false;
  RegisterOffset base = kNoRegister;   // kRegister: the register; kMemory: the address's base
  RegisterOffset index = kNoRegister;  // kMemory
  uint8_t scale = 1;                   // of the index: 1, 2, 4 or 8
  int64_t value = 0;                   // the constant, or the displacement

  friend bool operator==(const Operand&, const Operand&) = default;
};

// kUnsupported: a form of operand that is not read, such as a floating-point number.
[[nodiscard]] Result<std::vector<Operand>> parse_operands(std::string_view text);

struct Probe {
  std::string name;
  uint64_t offset = 0;            // of its instruction in the file
  uint64_t semaphore_offset = 0;  // of its counter in the file; 0: none
  std::string operands;           // see parse_operands()
};

// The probes of `provider` in the file, in its order. Empty: it has none, or is no ELF file. kIo:
// it cannot be read. kBadInput: it is damaged. kUnsupported: it has such probes, for another
// processor.
[[nodiscard]] Result<std::vector<Probe>> read_probes(const std::string& path,
                                                     std::string_view provider);

}  // namespace vram::attach
