#include "base/check.hpp"
#include "base/varint.hpp"
#include "trace/vtrace/events.hpp"

#include <algorithm>
#include <bit>

namespace vram::trace {
namespace {

// Clocks tick in micro- or milliseconds more often than in nanoseconds.
constexpr std::array<uint64_t, 3> kTimeUnits = {1'000'000'000, 1'000'000, 1'000};

uint64_t time_unit(std::span<const Event> events, int64_t min_time_ns) {
  for (const uint64_t unit : kTimeUnits) {
    const bool divides = std::all_of(events.begin(), events.end(), [&](const Event& event) {
      return (static_cast<uint64_t>(event.time_ns) - static_cast<uint64_t>(min_time_ns)) % unit ==
             0;
    });
    if (divides) return unit;
  }
  return 1;
}

bool is_free(EventKind kind) {
  return kind == EventKind::kFreeRequested || kind == EventKind::kFreeCompleted;
}

bool same_block(const Event& a, const Event& b) {
  return a.address == b.address && a.size_bytes == b.size_bytes && a.stream == b.stream &&
         a.pool == b.pool;
}

bool same_origin(const Event& a, const Event& b) {
  return a.stack == b.stack && a.context == b.context;
}

bool completes(const Event& request, const Event* next) {
  return next != nullptr && request.kind == EventKind::kFreeRequested &&
         next->kind == EventKind::kFreeCompleted && same_block(request, *next) &&
         same_origin(request, *next);
}

}  // namespace

EventEncoder::Slot& EventEncoder::find(Slots& slots, uint64_t key) const {
  const size_t mask = (size_t{1} << slot_bits_) - 1;
  size_t at = (key * 0x9e3779b97f4a7c15) >> (64 - slot_bits_);
  while (slots[at].round == round_ && slots[at].key != key) at = (at + 1) & mask;
  if (slots[at].round != round_) slots[at] = {.key = key, .round = round_};
  return slots[at];
}

std::span<const std::span<const uint8_t>> EventEncoder::encode(std::span<const Event> events) {
  VRAM_CHECK(events.size() <= kMaxFrameEvents);
  begin(events);
  for (size_t i = 0; i < events.size(); ++i) {
    const Event* next = i + 1 < events.size() ? &events[i + 1] : nullptr;
    put_event(events[i], next);
    if ((op_ & kOpCompleted) != 0) ++i;
  }
  return finish();
}

void EventEncoder::begin(std::span<const Event> events) {
  for (PodVector<uint8_t>& bytes : columns_) bytes.truncate(0);
  allocations_.truncate(0);
  first_event_ = events.data();
  // Twice the keys the frame can hold, so probing stays short; a short frame stays in the cache.
  const size_t slot_count = 2 * std::bit_ceil(std::max<size_t>(events.size(), 1));
  slot_bits_ = std::countr_zero(slot_count);
  for (Slots* slots : {&addresses_, &sizes_})
    if (slots->size() < slot_count) slots->resize(slot_count);
  ++round_;  // wraps after 2^32 frames; a slot that old would have to survive untouched
  address_count_ = size_count_ = 0;
  last_time_ = last_new_address_ = 0;
  last_written_ = {};
  min_time_ns_ = max_time_ns_ = events.empty() ? 0 : events[0].time_ns;
  uint64_t address_bits = 0;
  for (const Event& event : events) {
    min_time_ns_ = std::min(min_time_ns_, event.time_ns);
    max_time_ns_ = std::max(max_time_ns_, event.time_ns);
    address_bits |= event.address;
  }
  time_unit_ns_ = time_unit(events, min_time_ns_);
  address_shift_ = address_bits == 0 ? 0 : static_cast<unsigned>(std::countr_zero(address_bits));
}

void EventEncoder::put_event(const Event& event, const Event* next) {
  op_ = static_cast<uint8_t>(event.kind);
  put_time(Column::kTimes, event);
  if (!is_free(event.kind) || !put_reference(event)) put_explicit(event);
  if (event.kind == EventKind::kAlloc)
    allocations_.push_back(static_cast<uint32_t>(&event - first_event_));
  if (completes(event, next)) {
    op_ |= kOpCompleted;
    put_time(Column::kPairTimes, *next);
  }
  column(Column::kOps).push_back(op_);
}

void EventEncoder::put_time(Column which, const Event& event) {
  const uint64_t time =
      (static_cast<uint64_t>(event.time_ns) - static_cast<uint64_t>(min_time_ns_)) / time_unit_ns_;
  put_signed(column(which), wrapping_difference(time, last_time_));
  last_time_ = time;
}

// Says the event as a free of the frame's last allocation at its address, if that is what it is.
bool EventEncoder::put_reference(const Event& event) {
  const Slot& slot = find(addresses_, event.address);
  if (slot.allocation == 0) return false;
  const Event& allocation = first_event_[allocations_[slot.allocation - 1]];
  if (!same_block(event, allocation)) return false;
  op_ |= kOpByReference;
  put_varint(column(Column::kBacks), allocations_.size() - slot.allocation + 1);
  if (!same_origin(event, allocation)) {
    op_ |= kOpOrigin;
    put_varint(column(Column::kStacks), event.stack);
    put_varint(column(Column::kContexts), event.context);
    last_written_.stack = event.stack;
    last_written_.context = event.context;
  }
  return true;
}

void EventEncoder::put_explicit(const Event& event) {
  Slot& address = find(addresses_, event.address);
  put_varint(column(Column::kAddresses), address.number);
  if (address.number == 0) {
    address.number = ++address_count_;
    const uint64_t shifted = event.address >> address_shift_;
    put_signed(column(Column::kNewAddresses), wrapping_difference(shifted, last_new_address_));
    last_new_address_ = shifted;
  }
  if (event.kind == EventKind::kAlloc)
    address.allocation = static_cast<uint32_t>(allocations_.size()) + 1;
  Slot& size = find(sizes_, event.size_bytes);
  put_varint(column(Column::kSizes), size.number);
  if (size.number == 0) {
    size.number = ++size_count_;
    put_varint(column(Column::kNewSizes), event.size_bytes);
  }
  if (event.stream != last_written_.stream || event.pool != last_written_.pool) {
    op_ |= kOpPlace;
    put_varint(column(Column::kPlaces), event.stream);
    put_varint(column(Column::kPlaces), event.pool);
    last_written_.stream = event.stream;
    last_written_.pool = event.pool;
  }
  if (!same_origin(event, last_written_)) {
    op_ |= kOpOrigin;
    put_varint(column(Column::kStacks), event.stack);
    put_varint(column(Column::kContexts), event.context);
    last_written_.stack = event.stack;
    last_written_.context = event.context;
  }
}

std::span<const std::span<const uint8_t>> EventEncoder::finish() {
  head_.truncate(0);
  put_varint(head_, time_unit_ns_);
  put_varint(head_, address_shift_);
  for (size_t i = 0; i < kColumnCount; ++i) {
    put_varint(head_, columns_[i].size());
    parts_[i + 1] = columns_[i].span();
  }
  parts_[0] = head_.span();
  return parts_;
}

}  // namespace vram::trace
