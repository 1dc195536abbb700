#include "trace/vtrace/state.hpp"

#include "base/varint.hpp"

#include <algorithm>
#include <string_view>

namespace vram::trace {
namespace {

using Bytes = PodVector<uint8_t>;

constexpr uint64_t kFirstPiece = 1;
constexpr uint64_t kLastPiece = 2;
constexpr uint64_t kSmall = 1;
constexpr uint64_t kExpandable = 2;

// Reads ids and remembers whether one was past its table.
class Fields {
 public:
  Fields(std::span<const uint8_t> content, const TableSizes& limits)
      : reader_(content), limits_(limits) {}
  uint64_t number() { return reader_.get(); }
  int64_t difference() { return reader_.get_signed(); }
  uint64_t count() { return reader_.get_count(); }
  uint64_t under(uint64_t limit) {
    const uint64_t value = reader_.get();
    if (value >= limit) reader_.fail();
    return value;
  }
  StackId stack() { return static_cast<StackId>(under(limits_.stacks)); }
  StringId string() { return static_cast<StringId>(under(limits_.strings)); }
  StreamId stream() { return static_cast<StreamId>(under(limits_.streams)); }
  PoolId pool() {
    const uint64_t value = reader_.get();
    if (value >= limits_.pools && value != kUnknownPool) reader_.fail();
    return static_cast<PoolId>(value);
  }
  [[nodiscard]] bool failed() const { return reader_.failed(); }
  [[nodiscard]] bool done() const { return reader_.done(); }

 private:
  VarintReader reader_;
  const TableSizes& limits_;
};

struct SegmentBefore {
  uint64_t end = 0;
  uint64_t next_block = 0;
};

void put_segment(Bytes& out, const Segment& segment, SegmentBefore& before) {
  put_signed(out, wrapping_difference(segment.address, before.end));
  put_varint(out, segment.size_bytes);
  put_signed(out, wrapping_difference(segment.first_block, before.next_block));
  put_varint(out, segment.block_count);
  put_varint(out, segment.stack);
  put_varint(out, segment.stream);
  put_varint(out, segment.pool);
  put_varint(out, (segment.is_small ? kSmall : 0) | (segment.is_expandable ? kExpandable : 0));
  put_varint(out, segment.claimed_allocated_bytes);
  put_signed(out,
             wrapping_difference(segment.claimed_active_bytes, segment.claimed_allocated_bytes));
  put_signed(out,
             wrapping_difference(segment.claimed_requested_bytes, segment.claimed_active_bytes));
  before = {segment.address + segment.size_bytes, segment.first_block + segment.block_count};
}

Segment get_segment(Fields& from, SegmentBefore& before) {
  Segment segment;
  segment.address = wrapping_sum(before.end, from.difference());
  segment.size_bytes = from.number();
  segment.first_block = wrapping_sum(before.next_block, from.difference());
  segment.block_count = static_cast<uint32_t>(from.under(uint64_t{1} << 32));
  segment.stack = from.stack();
  segment.stream = from.stream();
  segment.pool = from.pool();
  const uint64_t flags = from.under(4);
  segment.is_small = (flags & kSmall) != 0;
  segment.is_expandable = (flags & kExpandable) != 0;
  segment.claimed_allocated_bytes = from.number();
  segment.claimed_active_bytes = wrapping_sum(segment.claimed_allocated_bytes, from.difference());
  segment.claimed_requested_bytes = wrapping_sum(segment.claimed_active_bytes, from.difference());
  before = {segment.address + segment.size_bytes, segment.first_block + segment.block_count};
  return segment;
}

void put_block(Bytes& out, const Block& block, uint64_t& before_end) {
  put_signed(out, wrapping_difference(block.address, before_end));
  put_varint(out, block.size_bytes);
  put_signed(out, wrapping_difference(block.size_bytes, block.requested_bytes));
  put_varint(out, block.stack);
  put_varint(out, static_cast<uint64_t>(block.state));
  before_end = block.address + block.size_bytes;
}

Block get_block(Fields& from, uint64_t& before_end) {
  Block block;
  block.address = wrapping_sum(before_end, from.difference());
  block.size_bytes = from.number();
  block.requested_bytes = block.size_bytes - static_cast<uint64_t>(from.difference());
  block.stack = from.stack();
  block.state = static_cast<BlockState>(from.under(3));
  before_end = block.address + block.size_bytes;
  return block;
}

bool blocks_exist(const DecodedState& state) {
  return std::all_of(state.segments.begin(), state.segments.end(), [&](const Segment& segment) {
    return segment.first_block <= state.blocks.size() &&
           segment.block_count <= state.blocks.size() - segment.first_block;
  });
}

}  // namespace

void encode_state(const StatePiece& piece, Bytes& content) {
  content.truncate(0);
  put_varint(content, (piece.is_first ? kFirstPiece : 0) | (piece.is_last ? kLastPiece : 0));
  put_varint(content, piece.segments.size());
  put_varint(content, piece.blocks.size());
  SegmentBefore segment_before;
  for (const Segment& segment : piece.segments) put_segment(content, segment, segment_before);
  uint64_t block_before = 0;
  for (const Block& block : piece.blocks) put_block(content, block, block_before);
}

Result<> decode_state(std::span<const uint8_t> content, const TableSizes& limits,
                      DecodedState& state) {
  Fields from(content, limits);
  const uint64_t flags = from.under(4);
  if ((flags & kFirstPiece) != 0) state = {};
  if (state.is_complete) return fail(Code::kBadInput, "the state has a piece after its last one");
  const uint64_t segment_count = from.count();
  const uint64_t block_count = from.count();
  SegmentBefore segment_before;
  for (uint64_t i = 0; i < segment_count && !from.failed(); ++i)
    state.segments.push_back(get_segment(from, segment_before));
  uint64_t block_before = 0;
  for (uint64_t i = 0; i < block_count && !from.failed(); ++i)
    state.blocks.push_back(get_block(from, block_before));
  if (!from.done()) return fail(Code::kBadInput, "the state's segments or blocks are damaged");
  const bool is_last = (flags & kLastPiece) != 0;
  if (is_last && !blocks_exist(state))
    return fail(Code::kBadInput, "a segment of the state names blocks that are not there");
  state.is_complete = is_last;
  return {};
}

namespace {

// A list of items with a time: their number, then for each the difference of its time from that of
// the one before, and what `put` writes.
template <typename Item, typename Put>
void encode_timed(std::span<const Item> items, Bytes& content, Put put) {
  content.truncate(0);
  put_varint(content, items.size());
  uint64_t before = 0;
  for (const Item& item : items) {
    const auto time = static_cast<uint64_t>(item.time_ns);
    put_signed(content, wrapping_difference(time, before));
    put(item);
    before = time;
  }
}

template <typename Item, typename Get>
Result<> decode_timed(std::span<const uint8_t> content, const TableSizes& limits,
                      std::string_view what, std::vector<Item>& items, Get get) {
  Fields from(content, limits);
  const uint64_t count = from.count();
  uint64_t time = 0;
  const size_t kept = items.size();
  for (uint64_t i = 0; i < count && !from.failed(); ++i) {
    time = wrapping_sum(time, from.difference());
    Item& item = items.emplace_back();
    item.time_ns = static_cast<int64_t>(time);
    get(from, item);
  }
  if (from.done()) return {};
  items.resize(kept);
  return fail(Code::kBadInput, "the {} are damaged", what);
}

constexpr uint64_t kOrdinals = uint64_t{1} << 32;

}  // namespace

void encode_annotations(std::span<const Annotation> annotations, Bytes& content) {
  encode_timed(annotations, content, [&](const Annotation& annotation) {
    put_varint(content, annotation.name);
    put_varint(content, annotation.device);
    put_varint(content, annotation.is_begin ? 1 : 0);
  });
}

Result<> decode_annotations(std::span<const uint8_t> content, const TableSizes& limits,
                            std::vector<Annotation>& annotations) {
  return decode_timed(content, limits, "annotations", annotations,
                      [](Fields& from, Annotation& annotation) {
                        annotation.name = from.string();
                        annotation.device = static_cast<uint32_t>(from.under(kOrdinals));
                        annotation.is_begin = from.under(2) == 1;
                      });
}

void encode_figures(std::span<const Figure> figures, Bytes& content) {
  encode_timed(figures, content, [&](const Figure& figure) {
    put_varint(content, figure.name);
    put_varint(content, figure.device);
    put_varint(content, figure.value);
  });
}

Result<> decode_figures(std::span<const uint8_t> content, const TableSizes& limits,
                        std::vector<Figure>& figures) {
  return decode_timed(content, limits, "figures", figures, [](Fields& from, Figure& figure) {
    figure.name = from.string();
    figure.device = static_cast<uint32_t>(from.under(kOrdinals));
    figure.value = from.number();
  });
}

void encode_marks(std::span<const Mark> marks, Bytes& content) {
  encode_timed(marks, content, [&](const Mark& mark) {
    put_varint(content, static_cast<uint64_t>(mark.duration_ns));
    put_varint(content, static_cast<uint64_t>(mark.kind));
    put_varint(content, mark.name);
    put_varint(content, mark.group);
    put_varint(content, mark.device);
    put_varint(content, mark.size_bytes);
  });
}

Result<> decode_marks(std::span<const uint8_t> content, const TableSizes& limits,
                      std::vector<Mark>& marks) {
  return decode_timed(content, limits, "marks", marks, [](Fields& from, Mark& mark) {
    mark.duration_ns = static_cast<int64_t>(from.under(uint64_t{1} << 63));
    const uint64_t kind = from.number();
    mark.kind = kind < kMarkKinds ? static_cast<MarkKind>(kind) : MarkKind::kOther;
    mark.name = from.string();
    mark.group = from.string();
    mark.device = static_cast<uint32_t>(from.under(kOrdinals));
    mark.size_bytes = from.number();
  });
}

}  // namespace vram::trace
