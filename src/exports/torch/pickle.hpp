// PickleWriter: appends the opcodes of a pickle of plain data to a text, of those alone that
// PyTorch's viewer (MemoryViz.js) knows, too: no frames, no sets, no big texts. It
// does not check that opcodes fit together. Internal to exports/torch; one thread.
//
// The caller numbers the memo: slots up to 255 are short to refer to.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vram::exports {

class PickleWriter {
 public:
  // Appends to `out`, which must outlive this.
  explicit PickleWriter(std::string& out) : out_(out) {}

  void protocol_4() { out_ += std::string_view("\x80\x04", 2); }
  void stop() { out_ += '.'; }

  void none() { out_ += 'N'; }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void integer(int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    if (value >= 0) return unsigned_integer(bits);
    if (value >= INT32_MIN) return append('J', bits, 4);
    size_t bytes = 8;
    while (bytes > 1 && value >= -(int64_t{1} << (8 * bytes - 9))) --bytes;
    long_integer(bits, bytes);
  }
  void unsigned_integer(uint64_t value) {
    if (value <= UINT8_MAX) return append('K', value, 1);
    if (value <= UINT16_MAX) return append('M', value, 2);
    if (value <= INT32_MAX) return append('J', value, 4);
    // With a bit for the sign.
    long_integer(value, static_cast<size_t>(std::bit_width(value)) / 8 + 1);
  }
  void real(double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    out_ += 'G';
    for (unsigned shift = 64; shift > 0; shift -= 8) out_ += static_cast<char>(bits >> (shift - 8));
  }
  // UTF-8 of less than 4 GiB.
  void text(std::string_view utf8) {
    if (utf8.size() <= UINT8_MAX)
      append('\x8c', utf8.size(), 1);
    else
      append('X', utf8.size(), 4);
    out_ += utf8;
  }

  // A dictionary is empty_dict(), mark(), keys and values, set_items(); a list empty_list() and,
  // for each part of its items, mark(), the items, append_items().
  void empty_dict() { out_ += '}'; }
  void empty_list() { out_ += ']'; }
  void mark() { out_ += '('; }
  void set_items() { out_ += 'u'; }
  void append_items() { out_ += 'e'; }
  // Of the last two values.
  void pair() { out_ += '\x86'; }

  // Stores the last value, or refers to a stored one.
  void put(uint32_t slot) { at_slot('q', 'r', slot); }
  void get(uint32_t slot) { at_slot('h', 'j', slot); }

 private:
  void append(char opcode, uint64_t operand, size_t bytes) {
    out_ += opcode;
    append_bytes(operand, bytes);
  }
  void append_bytes(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
      out_ += i < sizeof value ? static_cast<char>(value >> (8 * i)) : '\0';
  }
  void long_integer(uint64_t bits, size_t bytes) {
    append('\x8a', bytes, 1);
    append_bytes(bits, bytes);
  }
  void at_slot(char short_opcode, char long_opcode, uint32_t slot) {
    if (slot <= UINT8_MAX)
      append(short_opcode, slot, 1);
    else
      append(long_opcode, slot, 4);
  }

  std::string& out_;
};

}  // namespace vram::exports
