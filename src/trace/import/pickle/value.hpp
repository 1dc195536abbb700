// Value: a cell of the pickle machine's stack and memo, 8 bytes. Common integers are stored
// directly; a text, an unusual number or a complete container is the number that its sink assigned,
// so that a reference to a container of any size has the same cost.
#pragma once

#include <cstdint>

namespace vram::trace::pickle {

enum class Kind : uint8_t {
  kUnset,  // memo only: never stored
  kNone,
  kBool,      // payload 0 or 1
  kInt,       // integer(): of 55 bits and a sign at most, which addresses and times are
  kWideInt,   // payload: the sink's index of an int64_t's bits
  kUnsigned,  // payload: the sink's index of a uint64_t of 2^63 or more
  kHugeInt,   // beyond 64 bits; payload: 1 if negative
  kFloat,     // payload: the sink's index of a double's bits
  kText,      // payload: the sink's id, 32 bits
  kOpaque,    // bytes: skipped
  kRecord,    // a finished container; tag (below 32) and payload are the sink's
  kOpenDict,  // a container being filled; payload: the machine's handle
  kOpenList,
};

inline constexpr unsigned kPayloadBits = 55;
inline constexpr uint64_t kMaxPayload = (uint64_t{1} << kPayloadBits) - 1;

class Value {
 public:
  constexpr Value() = default;
  constexpr Value(Kind kind, uint64_t payload, uint8_t tag = 0)
      : bits_(payload << 9 | uint64_t{tag} << 4 | static_cast<uint64_t>(kind)) {}

  [[nodiscard]] constexpr Kind kind() const { return static_cast<Kind>(bits_ & 15); }
  [[nodiscard]] constexpr uint8_t tag() const { return static_cast<uint8_t>(bits_ >> 4 & 31); }
  [[nodiscard]] constexpr uint64_t payload() const { return bits_ >> 9; }
  // Of a kInt.
  [[nodiscard]] constexpr int64_t integer() const { return static_cast<int64_t>(bits_) >> 9; }
  [[nodiscard]] static constexpr bool fits(int64_t integer) {
    return static_cast<int64_t>(static_cast<uint64_t>(integer) << 9) >> 9 == integer;
  }
  [[nodiscard]] constexpr bool is_record(uint8_t with_tag) const {
    return (bits_ & 511) == (uint64_t{with_tag} << 4 | static_cast<uint64_t>(Kind::kRecord));
  }
  // Neither unset nor open: can be used directly.
  [[nodiscard]] constexpr bool is_settled() const {
    return (bits_ & 15) - 1 < static_cast<uint64_t>(Kind::kOpenDict) - 1;
  }
  [[nodiscard]] constexpr bool is_open() const { return kind() >= Kind::kOpenDict; }
  [[nodiscard]] static constexpr Value unset() { return {Kind::kUnset, 0}; }

  friend constexpr bool operator==(const Value&, const Value&) = default;

 private:
  uint64_t bits_ = static_cast<uint64_t>(Kind::kNone);
};
static_assert(sizeof(Value) == 8);

}  // namespace vram::trace::pickle
