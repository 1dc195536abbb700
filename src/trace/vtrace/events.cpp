#include "trace/vtrace/events.hpp"

#include "base/result.hpp"
#include "base/varint.hpp"

#include <algorithm>
#include <array>
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
  if (!same_origin(event, allocation)) put_origin(event);
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
  if (!same_origin(event, last_written_)) put_origin(event);
}

void EventEncoder::put_origin(const Event& event) {
  op_ |= kOpOrigin;
  put_varint(column(Column::kStacks), event.stack);
  put_varint(column(Column::kContexts), event.context);
  last_written_.stack = event.stack;
  last_written_.context = event.context;
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

namespace {

constexpr uint64_t kMaxTimeUnit = 1'000'000'000;

// One frame being decoded. Values are used before they are known to be good where that is harmless;
// every index into memory is checked at once, everything else by `good_` and the maxima at the end,
// which keeps the loop short.
class FrameDecode {
 public:
  FrameDecode(const FrameHeader& header, PodVector<uint32_t>& allocations,
              PodVector<uint64_t>& addresses, PodVector<uint64_t>& sizes)
      : base_time_(static_cast<uint64_t>(header.min_time_ns)),
        allocations_(allocations),
        addresses_(addresses),
        sizes_(sizes) {
    allocations_.truncate(0);
    addresses_.truncate(0);
    sizes_.truncate(0);
  }

  [[nodiscard]] bool open(std::span<const uint8_t> content) {
    VarintReader head(content);
    time_unit_ = head.get();
    address_shift_ = head.get();
    std::array<uint64_t, kColumnCount> lengths{};
    for (uint64_t& length : lengths) length = head.get();
    for (size_t i = 0; i < kColumnCount; ++i) columns_[i] = VarintReader(head.take(lengths[i]));
    ops_ = columns_[0].take(lengths[0]);
    return head.done() && time_unit_ >= 1 && time_unit_ <= kMaxTimeUnit && address_shift_ < 64;
  }

  [[nodiscard]] bool run(std::span<Event> out) {
    Event* at = out.data();
    Event* const end = at + out.size();
    for (const uint8_t op : ops_) {
      if (at == end) return false;
      Event& event = *at;
      event.time_ns = next_time(Column::kTimes);
      event.kind = static_cast<EventKind>(op & kOpKindMask);
      event.unused[0] = event.unused[1] = event.unused[2] = 0;
      if ((op & kOpByReference) != 0) {
        if (!read_reference(event, out.data(), op)) return false;
      } else {
        read_explicit(event, op);
      }
      good_ &= kKnownKinds >> (op & kOpKindMask) & 1;
      if (event.kind == EventKind::kAlloc)
        allocations_.push_back(static_cast<uint32_t>(at - out.data()));
      ++at;
      if ((op & kOpCompleted) == 0) continue;
      if (at == end) return false;
      *at = event;
      at->time_ns = next_time(Column::kPairTimes);
      at->kind = EventKind::kFreeCompleted;
      ++at;
    }
    return at == end;
  }

  [[nodiscard]] bool good(const TableSizes& limits) const {
    return good_ != 0 && max_stack_ < limits.stacks && max_context_ < limits.contexts &&
           max_stream_ < limits.streams && max_pool_ < limits.pools &&
           std::all_of(
               columns_.begin(), columns_.end(),
               [](const VarintReader& column) { return column.done(); });
  }
  [[nodiscard]] bool saw_stack() const { return max_stack_ != 0; }

 private:
  static constexpr uint32_t kKnownKinds = 0x0ffe;  // bits 1 to 11

  [[nodiscard]] VarintReader& column(Column which) { return columns_[static_cast<size_t>(which)]; }

  [[nodiscard]] int64_t next_time(Column which) {
    time_ = wrapping_sum(time_, column(which).get_signed());
    return static_cast<int64_t>(base_time_ + time_ * time_unit_);
  }

  [[nodiscard]] bool read_reference(Event& event, const Event* first, uint8_t op) {
    const uint64_t back = column(Column::kBacks).get();
    const size_t count = allocations_.size();
    if (back == 0 || back > count) return false;
    const Event& allocation = first[allocations_[count - back]];
    event.address = allocation.address;
    event.size_bytes = allocation.size_bytes;
    event.stream = allocation.stream;
    event.pool = allocation.pool;
    event.stack = allocation.stack;
    event.context = allocation.context;
    if ((op & kOpOrigin) != 0) {
      read_origin();
      event.stack = stack_;
      event.context = context_;
    }
    return true;
  }

  void read_explicit(Event& event, uint8_t op) {
    event.address = next_address();
    event.size_bytes = next_size();
    if ((op & kOpPlace) != 0) read_place();
    if ((op & kOpOrigin) != 0) read_origin();
    event.stream = stream_;
    event.pool = pool_;
    event.stack = stack_;
    event.context = context_;
  }

  [[nodiscard]] uint64_t next_address() {
    const uint64_t number = column(Column::kAddresses).get();
    if (number != 0) return listed(addresses_, number);
    new_address_ = wrapping_sum(new_address_, column(Column::kNewAddresses).get_signed());
    addresses_.push_back(new_address_ << address_shift_);
    return addresses_.back();
  }
  [[nodiscard]] uint64_t next_size() {
    const uint64_t number = column(Column::kSizes).get();
    if (number != 0) return listed(sizes_, number);
    sizes_.push_back(column(Column::kNewSizes).get());
    return sizes_.back();
  }
  [[nodiscard]] uint64_t listed(const PodVector<uint64_t>& list, uint64_t number) {
    if (number <= list.size()) return list[number - 1];
    good_ = 0;
    return 0;
  }

  void read_place() {
    const uint64_t stream = column(Column::kPlaces).get();
    const uint64_t pool = column(Column::kPlaces).get();
    max_stream_ = std::max(max_stream_, stream);
    if (pool != kUnknownPool) max_pool_ = std::max(max_pool_, pool);
    stream_ = static_cast<StreamId>(stream);
    pool_ = static_cast<PoolId>(pool);
  }
  void read_origin() {
    const uint64_t stack = column(Column::kStacks).get();
    const uint64_t context = column(Column::kContexts).get();
    max_stack_ = std::max(max_stack_, stack);
    max_context_ = std::max(max_context_, context);
    stack_ = static_cast<StackId>(stack);
    context_ = static_cast<ContextId>(context);
  }

  std::array<VarintReader, kColumnCount> columns_;
  std::span<const uint8_t> ops_;
  uint64_t base_time_;
  uint64_t time_unit_ = 1;
  uint64_t time_ = 0;
  uint64_t address_shift_ = 0;
  uint64_t new_address_ = 0;
  PodVector<uint32_t>& allocations_;
  PodVector<uint64_t>& addresses_;
  PodVector<uint64_t>& sizes_;
  StreamId stream_ = 0;
  PoolId pool_ = 0;
  StackId stack_ = 0;
  ContextId context_ = 0;
  uint64_t max_stream_ = 0;
  uint64_t max_pool_ = 0;
  uint64_t max_stack_ = 0;
  uint64_t max_context_ = 0;
  uint32_t good_ = 1;
};

}  // namespace

Result<> EventDecoder::decode(const FrameHeader& header, std::span<const uint8_t> content,
                              const TableSizes& limits, PodVector<Event>& out) {
  FrameDecode frame(header, allocations_, addresses_, sizes_);
  if (header.item_count > kMaxFrameEvents || !frame.open(content))
    return fail(Code::kBadInput, "the frame's columns do not add up to its content");
  const size_t before = out.size();
  const std::span<Event> events(out.extend(header.item_count), header.item_count);
  if (!frame.run(events) || !frame.good(limits)) {
    out.truncate(before);
    return fail(Code::kBadInput, "the frame's columns do not make its {} events",
                header.item_count);
  }
  saw_stack_ = frame.saw_stack();
  return {};
}

}  // namespace vram::trace
