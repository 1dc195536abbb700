#include "replay/initial_layout.hpp"

#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <tuple>
#include <utility>

namespace vram::replay {
namespace {

using trace::Event;
using trace::EventKind;

// PyTorch reserves 9/8 of the device: address spaces farther apart are different ones.
constexpr uint64_t kMaxReservedBytes = uint64_t{1} << 40;

// The sizes of blocks of which only the free is recorded. A rest that the rules do not split off
// belongs to the block; of a longer free range behind it, a part may as well. The first allocation
// there begins where the block ends.
class BlockSizes {
 public:
  BlockSizes(const TorchRules& rules, Program& program) : rules_(rules), program_(program) {}

  // False where a block lies outside of every segment, or over another one.
  [[nodiscard]] bool settle() {
    size_t next = 0;
    for (const InitialSegment& segment : program_.initial_segments) {
      uint64_t free_from = segment.address;
      const uint64_t end = segment.address + segment.size_bytes;
      for (; next < blocks().size() && blocks()[next].address < end; ++next) {
        if (blocks()[next].address < free_from) return false;
        const bool is_last = next + 1 == blocks().size() || blocks()[next + 1].address >= end;
        free_from = settle_one(segment, next, is_last ? end : blocks()[next + 1].address);
        if (free_from > end) return false;
      }
    }
    return next == blocks().size();
  }
  void learn(std::span<const Event> events) {
    for (size_t i = 0; i < events.size() && !open_.empty(); ++i) see(events[i]);
  }

 private:
  // A block that ends somewhere before `until`.
  struct Open {
    size_t block = 0;
    uint64_t until = 0;
  };

  [[nodiscard]] std::vector<InitialBlock>& blocks() { return program_.initial_blocks; }
  // Where it ends. The next block, or the segment's end, is at `limit`.
  uint64_t settle_one(const InitialSegment& segment, size_t index, uint64_t limit) {
    InitialBlock& block = blocks()[index];
    if (block.block_bytes > 0) return block.address + block.block_bytes;
    block.block_bytes = rules_.round(block.requested_bytes);
    const uint64_t end = block.address + block.block_bytes;
    if (end >= limit) return end;
    const bool is_fine = segment.is_small || segment.is_expandable;
    if (!rules_.splits(block.block_bytes, limit - end, is_fine)) {
      block.block_bytes = limit - block.address;
    } else if (!is_fine) {
      open_[block.address] = {index, std::min(limit, end + kSmallRequestBytes + 1)};
    }
    return block.address + block.block_bytes;
  }
  void see(const Event& event) {
    if (event.kind == EventKind::kFreeCompleted) open_.erase(event.address);
    if (event.kind != EventKind::kAlloc) return;
    const auto after = open_.upper_bound(event.address);
    if (after == open_.begin()) return;
    const auto at = std::prev(after);
    if (event.address >= at->second.until) return;
    InitialBlock& block = blocks()[at->second.block];
    block.block_bytes = std::max(block.block_bytes, event.address - block.address);
    open_.erase(at);
  }

  const TorchRules& rules_;
  Program& program_;
  std::map<uint64_t, Open> open_;  // by the address of the block
};

using LaneKey = std::tuple<trace::PoolId, trace::StreamId, bool>;

LaneKey lane_of(const InitialSegment& segment) {
  return {segment.pool, segment.stream, segment.is_small};
}

// Unmapped ranges do not say of which size class they were: the small pool maps pages of 2 MiB, the
// large one larger granules.
void classify(const TorchRules& rules, Program& program) {
  auto block = program.initial_blocks.begin();
  for (InitialSegment& segment : program.initial_segments) {
    const uint64_t end = segment.address + segment.size_bytes;
    for (; block != program.initial_blocks.end() && block->address < end; ++block) {
      if (segment.is_expandable && block->requested_bytes <= kSmallRequestBytes)
        segment.is_small |= rules.round(block->requested_bytes) <= kSmallRequestBytes;
    }
    segment.is_small |=
        segment.is_expandable && segment.size_bytes % rules.granule_bytes(false) != 0;
  }
}

// Each lane maps within one reservation of address space. Pages that are mapped below all that was
// mapped at first show that it begins lower.
void find_reservations(std::span<const Event> events, const TorchRules& rules, Program& program) {
  std::vector<InitialSegment>& segments = program.initial_segments;
  std::map<LaneKey, uint64_t> lowest;
  for (const InitialSegment& segment : segments) {
    if (segment.is_expandable) lowest.emplace(lane_of(segment), segment.address);
  }
  if (lowest.empty()) return;
  for (const DriverCall& call : program.recorded_calls) {
    if (call.kind != DriverCall::Kind::kMap) continue;
    const auto above =
        std::ranges::lower_bound(segments, call.address, {}, &InitialSegment::address);
    if (above == segments.end() || !above->is_expandable) continue;
    const Event& event = events[call.event];
    const bool is_small = call.size_bytes % rules.granule_bytes(false) != 0;
    if (event.stream != above->stream || is_small != above->is_small) continue;
    uint64_t& base = lowest[lane_of(*above)];
    if (call.address < base && base - call.address < kMaxReservedBytes) base = call.address;
  }
  for (InitialSegment& segment : segments) {
    if (segment.is_expandable) segment.reservation_address = lowest[lane_of(segment)];
  }
}

std::vector<trace::PoolId> find_native_pools(const trace::DeviceTrace& device) {
  std::vector<trace::PoolId> pools;
  for (const trace::Segment& segment : device.segments) {
    if (segment.pool == 0 || segment.pool == trace::kUnknownPool || segment.is_expandable) continue;
    if (std::ranges::find(pools, segment.pool) == pools.end()) pools.push_back(segment.pool);
  }
  return pools;
}

bool has_vram_segments(const trace::Trace& trace, const SegmentMap& segments) {
  return std::ranges::any_of(segments.ranges(), [&](const auto& entry) {
    return is_of_vram(trace.tables, entry.second.context);
  });
}

}  // namespace

void read_layout(const trace::Trace& trace, const trace::DeviceTrace& device, Baseline baseline,
                 Program& program) {
  for (const auto& [address, range] : baseline.segments.ranges()) {
    program.initial_segments.push_back({.address = address,
                                        .size_bytes = range.size_bytes,
                                        .reservation_address = 0,
                                        .stream = range.stream,
                                        .pool = range.pool,
                                        .is_small = range.is_small,
                                        .is_expandable = range.is_expandable});
  }
  program.initial_blocks = std::move(baseline.blocks);
  if (has_vram_segments(trace, baseline.segments)) return;
  TorchSettings settings = recorded_torch(trace);
  if (settings.expandable_segments) program.native_pools = find_native_pools(device);
  settings.expandable_segments = false;  // each segment says what it is
  const TorchRules rules(settings);
  const std::span<const Event> events = trace.events_of(device);
  classify(rules, program);
  find_reservations(events, rules, program);
  BlockSizes sizes(rules, program);
  program.knows_layout = sizes.settle();
  if (program.knows_layout) sizes.learn(events);
}

}  // namespace vram::replay
