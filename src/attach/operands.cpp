#include "attach/probes.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>

namespace vram::attach {
namespace {

struct NamedRegister {
  // By the number of bytes: 8, 4, 2, 1.
  std::array<std::string_view, 4> names;
  RegisterOffset offset;
};

constexpr RegisterOffset at(size_t offset) { return static_cast<RegisterOffset>(offset); }
constexpr std::array<NamedRegister, 17> kRegisters = {{
    {{"rax", "eax", "ax", "al"}, at(offsetof(Registers, rax))},
    {{"rbx", "ebx", "bx", "bl"}, at(offsetof(Registers, rbx))},
    {{"rcx", "ecx", "cx", "cl"}, at(offsetof(Registers, rcx))},
    {{"rdx", "edx", "dx", "dl"}, at(offsetof(Registers, rdx))},
    {{"rsi", "esi", "si", "sil"}, at(offsetof(Registers, rsi))},
    {{"rdi", "edi", "di", "dil"}, at(offsetof(Registers, rdi))},
    {{"rbp", "ebp", "bp", "bpl"}, at(offsetof(Registers, rbp))},
    {{"rsp", "esp", "sp", "spl"}, at(offsetof(Registers, rsp))},
    {{"r8", "r8d", "r8w", "r8b"}, at(offsetof(Registers, r8))},
    {{"r9", "r9d", "r9w", "r9b"}, at(offsetof(Registers, r9))},
    {{"r10", "r10d", "r10w", "r10b"}, at(offsetof(Registers, r10))},
    {{"r11", "r11d", "r11w", "r11b"}, at(offsetof(Registers, r11))},
    {{"r12", "r12d", "r12w", "r12b"}, at(offsetof(Registers, r12))},
    {{"r13", "r13d", "r13w", "r13b"}, at(offsetof(Registers, r13))},
    {{"r14", "r14d", "r14w", "r14b"}, at(offsetof(Registers, r14))},
    {{"r15", "r15d", "r15w", "r15b"}, at(offsetof(Registers, r15))},
    {{"rip", "", "", ""}, at(offsetof(Registers, rip))},
}};

std::optional<RegisterOffset> find_register(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const NamedRegister& known : kRegisters)
    for (const std::string_view own : known.names)
      if (own == name) return known.offset;
  return std::nullopt;
}

std::optional<int64_t> parse_number(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  uint64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, is_hex ? 16 : 10);
  if (error != std::errc() || end != last) return std::nullopt;
  return static_cast<int64_t>(is_negative ? -number : number);
}

// The text before `separator`; what follows it remains.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

std::optional<RegisterOffset> take_register(std::string_view& text) {
  const std::string_view name = take_until(text, ',');
  return name.starts_with('%') ? find_register(name.substr(1)) : std::nullopt;
}

// "-24(%rbp)", "(%rax,%rcx,8)". A symbol before the bracket is not resolved.
bool parse_memory(std::string_view text, Operand& operand) {
  const std::string_view displacement = take_until(text, '(');
  if (!text.ends_with(')')) return false;
  text.remove_suffix(1);
  const auto value = displacement.empty() ? 0 : parse_number(displacement);
  const auto base = take_register(text);
  if (!value || !base) return false;
  operand.kind = Operand::Kind::kMemory;
  operand.value = *value;
  operand.base = *base;
  if (text.empty()) return true;
  const auto index = take_register(text);
  const auto scale = text.empty() ? 1 : parse_number(text);
  if (!index || !scale || (*scale != 1 && *scale != 2 && *scale != 4 && *scale != 8)) return false;
  operand.index = *index;
  operand.scale = static_cast<uint8_t>(*scale);
  return true;
}

bool parse_place(std::string_view text, Operand& operand) {
  if (text.starts_with('$')) {
    const auto value = parse_number(text.substr(1));
    operand.value = value.value_or(0);
    return value.has_value();
  }
  if (!text.starts_with('%')) return parse_memory(text, operand);
  const auto found = find_register(text.substr(1));
  operand.kind = Operand::Kind::kRegister;
  operand.base = found.value_or(kNoRegister);
  return found.has_value();
}

std::optional<Operand> parse_operand(std::string_view text) {
  Operand operand;
  operand.is_signed = text.starts_with('-');
  if (operand.is_signed) text.remove_prefix(1);
  const auto size = parse_number(take_until(text, '@'));
  if (!size || (*size != 1 && *size != 2 && *size != 4 && *size != 8)) return std::nullopt;
  operand.size_bytes = static_cast<uint8_t>(*size);
  return parse_place(text, operand) ? std::optional(operand) : std::nullopt;
}

}  // namespace

Result<std::vector<Operand>> parse_operands(std::string_view text) {
  std::vector<Operand> operands;
  while (!text.empty()) {
    const std::string_view word = take_until(text, ' ');
    if (word.empty()) continue;
    const auto operand = parse_operand(word);
    if (!operand) {
      return fail(Code::kUnsupported,
                  "expected a probe's argument such as 8@%rdi, -4@-24(%rbp) or 4@$1, found '{}'",
                  word);
    }
    operands.push_back(*operand);
  }
  return operands;
}

}  // namespace vram::attach
