// Value: a cell of the pickle machine's stack and memo, 8 bytes. Common integers are stored
// directly; a text, an unusual number or a complete container is the number that its sink assigned,
// so that a reference to a container of any size has the same cost.
#pragma once

#include "base/pod_vector.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <vector>

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

// ValueStack: the machine's stack. Its capacity is ensured once for a whole window of input (no
// opcode pushes more than one value for each of its bytes), so a push is two stores. Unused
// capacity takes no memory. Use it from one thread.
class ValueStack {
 public:
  ValueStack() = default;
  ValueStack(const ValueStack&) = delete;
  ValueStack& operator=(const ValueStack&) = delete;
  ~ValueStack() { std::free(values_); }

  // Pointers into the stack are void afterwards.
  void make_room(size_t pushes) {
    if (capacity_ - size_ >= pushes) return;
    const size_t capacity = (size_ + pushes) * 2;
    void* moved = std::realloc(static_cast<void*>(values_), capacity * sizeof(Value));
    if (moved == nullptr) throw std::bad_alloc();
    values_ = static_cast<Value*>(moved);
    capacity_ = capacity;
  }
  // There is room.
  void push(const Value& value) { values_[size_++] = value; }
  // For several pushes: store at top() and after it, within the capacity, then set the new top.
  [[nodiscard]] Value* top() { return values_ + size_; }
  void set_top(const Value* top) { size_ = static_cast<size_t>(top - values_); }
  void truncate(size_t size) { size_ = size; }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Value& operator[](size_t i) { return values_[i]; }
  [[nodiscard]] const Value& back() const { return values_[size_ - 1]; }
  [[nodiscard]] Value& back() { return values_[size_ - 1]; }
  [[nodiscard]] std::span<const Value> from(size_t first) const {
    return {values_ + first, size_ - first};
  }

 private:
  Value* values_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// The memo: values stored by earlier opcodes, by number. 8 bytes for a slot, and less for whole
// pages of consecutive records, such as those of a recording's events: such a page is returned to
// the system and stored as a run. Use it from one thread.

class Memo {
 public:
  [[nodiscard]] uint64_t size() const { return slots_.size(); }
  // How many slots were ever stored: the number MEMOIZE uses next.
  [[nodiscard]] uint64_t used() const { return used_; }
  [[nodiscard]] uint64_t memory_bytes() const { return (size() - in_runs_) * sizeof(Value); }

  [[nodiscard]] std::span<const Value> slots() const { return slots_.span(); }
  // Unset also for most values in runs: then call find(). index < size()
  [[nodiscard]] const Value& operator[](uint64_t index) const { return slots_[index]; }
  // Unset if nothing was stored.
  [[nodiscard]] Value find(uint64_t index) const;

  void store(uint64_t index, const Value& value);
  // MEMOIZE: the common case of storing at the end.
  void append(const Value& value) {
    slots_.push_back(value);
    ++used_;
  }
  // Compacts what was stored since the last call, except the newest slots. Call it periodically.
  void compact();

 private:
  struct Run {
    uint64_t first = 0;  // index
    uint64_t count = 0;
    uint64_t stride = 1;  // sequences in turn: 1 or 2
    Value starts[2];      // of each
    [[nodiscard]] Value at(uint64_t offset) const;
  };
  [[nodiscard]] const Run* run_of(uint64_t index) const;
  [[nodiscard]] bool counts_up(uint64_t first, uint64_t stride) const;
  void make_run(uint64_t first, uint64_t stride);

  PodVector<Value> slots_;
  uint64_t used_ = 0;
  std::vector<Run> runs_;  // ascending
  uint64_t looked_at_ = 0;
  uint64_t in_runs_ = 0;
};

}  // namespace vram::trace::pickle
