// The content of an events frame: up to kMaxFrameEvents events of one device as columns of varints,
// and back. A free points back at its allocation, a completion rides on its request, addresses and
// sizes are numbers into lists the frame brings along. No frame needs another one, only the tables.
// One thread at a time; the encoder keeps up to 8 MiB.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/event.hpp"
#include "trace/vtrace/frames.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace vram::trace {

// The columns, in the order of the file.
enum class Column : uint8_t {
  kOps,
  kTimes,
  kPairTimes,
  kBacks,
  kAddresses,
  kNewAddresses,
  kSizes,
  kNewSizes,
  kPlaces,
  kStacks,
  kContexts,
};
inline constexpr size_t kColumnCount = 11;

// An op: the kind in the low bits; the other bits state which fields follow elsewhere.
inline constexpr uint8_t kOpKindMask = 0x0f;
// address, size, stream, pool are those of an earlier allocation
inline constexpr uint8_t kOpByReference = 0x10;
inline constexpr uint8_t kOpCompleted = 0x20;  // kFreeCompleted of the same block is the next event
inline constexpr uint8_t kOpPlace = 0x40;      // stream and pool differ from the previous ones
inline constexpr uint8_t kOpOrigin = 0x80;     // stack and context are given

// The sizes of the tables; every id must be smaller.
struct TableSizes {
  uint64_t strings = 1;
  uint64_t frames = 1;
  uint64_t stacks = 1;
  uint64_t contexts = 1;
  uint64_t streams = 1;
  uint64_t pools = 1;
};

class EventEncoder {
 public:
  // The frame's content in parts (head, then columns), valid until the next call. At most
  // kMaxFrameEvents events.
  [[nodiscard]] std::span<const std::span<const uint8_t>> encode(std::span<const Event> events);
  [[nodiscard]] int64_t min_time_ns() const { return min_time_ns_; }
  [[nodiscard]] int64_t max_time_ns() const { return max_time_ns_; }

 private:
  // A frame's state of an address or a size: its number, and the last allocation there.
  struct Slot {
    uint64_t key = 0;
    uint32_t round = 0;  // the slot is empty unless this is the current frame's round
    uint32_t number = 0;
    uint32_t allocation = 0;  // ordinal + 1; 0: none
  };
  using Slots = PodVector<Slot>;

  void begin(std::span<const Event> events);
  void put_event(const Event& event, const Event* next);
  [[nodiscard]] bool put_reference(const Event& event);
  void put_explicit(const Event& event);
  void put_origin(const Event& event);
  void put_time(Column column, const Event& event);
  [[nodiscard]] Slot& find(Slots& slots, uint64_t key) const;
  [[nodiscard]] std::span<const std::span<const uint8_t>> finish();
  [[nodiscard]] PodVector<uint8_t>& column(Column which) {
    return columns_[static_cast<size_t>(which)];
  }

  std::array<PodVector<uint8_t>, kColumnCount> columns_;
  PodVector<uint8_t> head_;
  std::array<std::span<const uint8_t>, kColumnCount + 1> parts_;
  Slots addresses_;
  Slots sizes_;
  const Event* first_event_ = nullptr;  // of the frame
  PodVector<uint32_t> allocations_;     // from there
  uint32_t round_ = 0;
  int slot_bits_ = 0;
  uint32_t address_count_ = 0;
  uint32_t size_count_ = 0;
  uint64_t time_unit_ns_ = 1;
  unsigned address_shift_ = 0;
  uint64_t last_time_ = 0;         // in units since min_time_ns_
  uint64_t last_new_address_ = 0;  // shifted
  Event last_written_;             // stream, pool; stack, context
  uint8_t op_ = 0;
  int64_t min_time_ns_ = 0;
  int64_t max_time_ns_ = 0;
};

class EventDecoder {
 public:
  // Appends header.item_count events. On failure (kBadInput) appends nothing.
  [[nodiscard]] Result<> decode(const FrameHeader& header, std::span<const uint8_t> content,
                                const TableSizes& limits, PodVector<Event>& out);
  // Whether any event of the last frame had a stack.
  [[nodiscard]] bool saw_stack() const { return saw_stack_; }

 private:
  PodVector<uint32_t> allocations_;
  PodVector<uint64_t> addresses_;
  PodVector<uint64_t> sizes_;
  bool saw_stack_ = false;
};

}  // namespace vram::trace
