// The forms of operands that compilers write into notes.
#include "attach/probes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace vram::attach {
namespace {

constexpr auto kRdi = static_cast<RegisterOffset>(offsetof(Registers, rdi));
constexpr auto kRsi = static_cast<RegisterOffset>(offsetof(Registers, rsi));
constexpr auto kRbp = static_cast<RegisterOffset>(offsetof(Registers, rbp));
constexpr auto kR13 = static_cast<RegisterOffset>(offsetof(Registers, r13));
using Kind = Operand::Kind;

TEST(Operands, AreReadInAllTheirForms) {
  const auto operands =
      parse_operands(
          "8@%rdi -1@%sil 2@%r13w -4@-40(%rbp) 8@(%rdi,%r13,8) 4@$17 -8@$-2 8@0x10(%rsi)")
          .value();
  const std::vector<Operand> expected = {
      {.kind = Kind::kRegister, .base = kRdi},
      {.kind = Kind::kRegister, .size_bytes = 1, .is_signed = true, .base = kRsi},
      {.kind = Kind::kRegister, .size_bytes = 2, .base = kR13},
      {.kind = Kind::kMemory, .size_bytes = 4, .is_signed = true, .base = kRbp, .value = -40},
      {.kind = Kind::kMemory, .base = kRdi, .index = kR13, .scale = 8},
      {.kind = Kind::kConstant, .size_bytes = 4, .value = 17},
      {.kind = Kind::kConstant, .is_signed = true, .value = -2},
      {.kind = Kind::kMemory, .base = kRsi, .value = 16}};
  EXPECT_EQ(operands, expected);
  EXPECT_TRUE(parse_operands("").value().empty());
}

TEST(Operands, OthersAreRefusedByName) {
  for (const char* text :
       {"8f@%xmm0", "8@%xmm0", "8@%ah", "3@%rdi", "8@", "8", "@%rdi", "8@counter(%rip",
        "8@counter(%rip)", "8@(%rdi,%rsi,3)", "8@$", "8@$x", "8@8(%rdi", "8@-(%rdi)"}) {
    const auto operands = parse_operands(std::string("8@%rdi ") + text);
    ASSERT_FALSE(operands) << text;
    EXPECT_EQ(operands.error().code, Code::kUnsupported);
    EXPECT_TRUE(operands.error().message.ends_with(std::string("found '") + text + "'"))
        << operands.error().message;
  }
}

}  // namespace
}  // namespace vram::attach
