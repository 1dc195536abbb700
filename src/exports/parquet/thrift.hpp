// ThriftStruct: writes a struct in Thrift's compact protocol, of which Parquet uses a small part:
// fields of rising numbers, integers, texts, lists and structs. Internal to parquet/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vram::exports {

enum class ThriftType : uint8_t {
  kTrue = 1,
  kFalse = 2,
  kI8 = 3,
  kI32 = 5,
  kI64 = 6,
  kText = 8,
  kList = 9,
  kStruct = 12
};

class ThriftStruct {
 public:
  explicit ThriftStruct(std::string& out) : out_(out) {}
  ThriftStruct(const ThriftStruct&) = delete;
  ThriftStruct& operator=(const ThriftStruct&) = delete;
  ~ThriftStruct() { out_ += '\0'; }

  void add_bool(int16_t field, bool value) {
    add_header(field, value ? ThriftType::kTrue : ThriftType::kFalse);
  }
  void add_i8(int16_t field, int8_t value) {
    add_header(field, ThriftType::kI8);
    out_ += static_cast<char>(value);
  }
  void add_i32(int16_t field, int32_t value) {
    add_header(field, ThriftType::kI32);
    append_signed(out_, value);
  }
  void add_i64(int16_t field, int64_t value) {
    add_header(field, ThriftType::kI64);
    append_signed(out_, value);
  }
  void add_text(int16_t field, std::string_view text) {
    add_header(field, ThriftType::kText);
    append_text(out_, text);
  }
  // The caller appends the items to the same text: append_signed(), append_text(), ThriftStruct.
  void add_list(int16_t field, ThriftType of, size_t count) {
    constexpr size_t kLong = 15;
    constexpr unsigned kSizeShift = 4;
    add_header(field, ThriftType::kList);
    const size_t shown = count < kLong ? count : kLong;
    out_ += static_cast<char>(shown << kSizeShift | static_cast<uint8_t>(of));
    if (count >= kLong) append_unsigned(out_, count);
  }
  // The caller writes a ThriftStruct to the same text.
  void add_struct(int16_t field) { add_header(field, ThriftType::kStruct); }

  static void append_unsigned(std::string& out, uint64_t number) {
    constexpr uint64_t kMore = 0x80;
    for (; number >= kMore; number >>= 7U) out += static_cast<char>(number | kMore);
    out += static_cast<char>(number);
  }
  static void append_signed(std::string& out, int64_t number) {
    append_unsigned(out, static_cast<uint64_t>(number) << 1U ^ static_cast<uint64_t>(number >> 63));
  }
  static void append_text(std::string& out, std::string_view text) {
    append_unsigned(out, text.size());
    out += text;
  }

 private:
  // Numbers of fields rise by less than 16 in Parquet's structs.
  void add_header(int16_t field, ThriftType type) {
    out_ += static_cast<char>((field - last_) << 4 | static_cast<uint8_t>(type));
    last_ = field;
  }

  std::string& out_;
  int16_t last_ = 0;
};

}  // namespace vram::exports
