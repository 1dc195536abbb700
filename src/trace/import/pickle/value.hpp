// Value: one cell of the pickle machine's stack. Numbers are held as they are; a text or a finished
// container is whatever number its sink gave it, so a container of any size costs 16 bytes here and
// 8 in the memo.
#pragma once

#include "base/check.hpp"
#include "base/pod_vector.hpp"

#include <cstdint>

namespace vram::trace::pickle {

enum class Kind : uint8_t {
  kUnset,  // memo only: never stored
  kNone,
  kBool,      // payload 0 or 1
  kInt,       // payload: int64_t, two's complement
  kUnsigned,  // payload: a uint64_t of 2^63 or more
  kHugeInt,   // beyond 64 bits; payload: 1 if negative
  kFloat,     // payload: the double's bits
  kText,      // payload: the sink's id, 32 bits
  kOpaque,    // bytes: skipped
  kRecord,    // a finished container; tag and payload (kMaxPayload) are the sink's
  kOpenDict,  // a container being filled; payload: the machine's handle
  kOpenList,
};

struct Value {
  uint64_t payload = 0;
  Kind kind = Kind::kNone;
  uint8_t tag = 0;  // kRecord only; below 32

  friend bool operator==(const Value&, const Value&) = default;
};

inline constexpr unsigned kPayloadBits = 55;
inline constexpr uint64_t kMaxPayload = (uint64_t{1} << kPayloadBits) - 1;

// The memo: what earlier opcodes stored, by number. 8 bytes a slot, because a recording stores
// every event's dictionary.
class Memo {
 public:
  [[nodiscard]] uint64_t size() const { return slots_.size(); }
  // How many slots were ever stored: the number MEMOIZE uses next.
  [[nodiscard]] uint64_t used() const { return used_; }
  [[nodiscard]] uint64_t memory_bytes() const {
    return slots_.size() * sizeof(uint64_t) + wide_.size() * sizeof(Value);
  }

  // index < size()
  [[nodiscard]] Value load(uint64_t index) const {
    const uint64_t packed = slots_[index];
    const auto code = static_cast<uint8_t>(packed & 15);
    if (code == kWide) [[unlikely]]
      return wide_[packed >> 9];
    return {packed >> 9, static_cast<Kind>(code), static_cast<uint8_t>((packed >> 4) & 31)};
  }
  void store(uint64_t index, const Value& value) {
    if (index >= slots_.size()) slots_.resize(index + 1);
    used_ += slots_[index] == 0 ? 1 : 0;
    slots_[index] = pack(value);
  }
  // MEMOIZE: the common case of storing at the end.
  void append(const Value& value) {
    slots_.push_back(pack(value));
    ++used_;
  }

 private:
  static constexpr uint8_t kWide = 15;
  [[nodiscard]] uint64_t pack(const Value& value) {
    if (value.payload <= kMaxPayload) [[likely]] {
      return value.payload << 9 | uint64_t{value.tag} << 4 | static_cast<uint64_t>(value.kind);
    }
    wide_.push_back(value);
    return (wide_.size() - 1) << 9 | kWide;
  }
  PodVector<uint64_t> slots_;
  PodVector<Value> wide_;  // numbers that do not fit; PyTorch never stores any
  uint64_t used_ = 0;
};

}  // namespace vram::trace::pickle
