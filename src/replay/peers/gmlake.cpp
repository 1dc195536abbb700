#include "replay/peers/gmlake.hpp"

#include "base/result.hpp"
#include "replay/peers/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace vram::replay {
namespace {

constexpr uint64_t kGmLakeChunkBytes = 2 * kMiB;
// In Node::segment: the rest is the number of a stitched block.
constexpr uint32_t kStitched = 0x80000000;

}  // namespace

template <typename Visit>
void Stitches::for_each_over(const Piece& range, Visit visit) {
  if (range.segment >= links_.size()) return;
  const uint64_t end = range.address + range.bytes;
  for (const Link& link : links_[range.segment]) {
    const uint64_t low = std::max(link.begin, range.address);
    const uint64_t high = std::min(link.end, end);
    if (low < high) visit(link.stitch, high - low);
  }
}

Stitches::Id Stitches::add(Stitch stitch) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<Id>(stitches_.size()));
    stitches_.emplace_back();
  }
  const Id id = unused_.back();
  unused_.pop_back();
  for (const Piece& piece : stitch.pieces) {
    if (piece.segment >= links_.size()) links_.resize(piece.segment + 1);
    links_[piece.segment].push_back({id, piece.address, piece.address + piece.bytes});
  }
  if (stitch.lane >= free_.size()) free_.resize(stitch.lane + 1);
  if (stitch.busy_bytes == 0) free_of(stitch).insert({stitch.bytes, stitch.address, id});
  total_bytes_ += stitch.bytes;
  stitches_[id] = std::move(stitch);
  return id;
}

void Stitches::drop(Id id) {
  Stitch& stitch = stitches_[id];
  for (const Piece& piece : stitch.pieces) {
    std::erase_if(links_[piece.segment], [&](const Link& link) { return link.stitch == id; });
  }
  if (stitch.busy_bytes == 0) free_of(stitch).erase(stitch.bytes, stitch.address);
  total_bytes_ -= stitch.bytes;
  stitch = {};
  unused_.push_back(id);
}

void Stitches::use(const Piece& range) {
  for_each_over(range, [this](Id id, uint64_t bytes) {
    Stitch& stitch = stitches_[id];
    if (stitch.busy_bytes == 0) free_of(stitch).erase(stitch.bytes, stitch.address);
    stitch.busy_bytes += bytes;
  });
}

void Stitches::leave(const Piece& range) {
  for_each_over(range, [this](Id id, uint64_t bytes) {
    Stitch& stitch = stitches_[id];
    stitch.busy_bytes -= bytes;
    if (stitch.busy_bytes == 0) free_of(stitch).insert({stitch.bytes, stitch.address, id});
  });
}

std::optional<Stitches::Id> Stitches::best_fit(uint32_t lane, uint64_t min_bytes,
                                               uint64_t max_bytes) const {
  if (lane >= free_.size()) return {};
  const FreeSet& free = free_[lane];
  const FreeSet::Cursor at = free.at_least(min_bytes);
  if (free.is_end(at) || free[at].size_bytes > max_bytes) return {};
  return free[at].node;
}

std::vector<Stitches::Id> Stitches::over(uint32_t segment) const {
  std::vector<Id> list;
  if (segment >= links_.size()) return list;
  for (const Link& link : links_[segment]) list.push_back(link.stitch);
  std::ranges::sort(list);
  list.erase(std::ranges::unique(list).begin(), list.end());
  return list;
}

std::vector<Stitches::Id> Stitches::idle() const {
  std::vector<Id> list;
  for (Id id = 0; id < stitches_.size(); ++id) {
    if (stitches_[id].bytes != 0 && stitches_[id].held.empty()) list.push_back(id);
  }
  return list;
}

GmLake::GmLake(const GmLakeSettings& settings, const PeerContext& context)
    : CachingBase(context.limit_bytes, context.program, context.segments),
      settings_(settings),
      rules_(TorchSettings{}) {}

uint64_t GmLake::malloc(const Request& request) {
  if (const auto answer = answer_at_once(request.size_bytes)) return *answer;
  const uint64_t rounded = rules_.round(request.size_bytes);
  const bool is_small = rounded <= kSmallRequestBytes;
  const uint64_t size_bytes = is_small ? rounded : round_up(rounded, kGmLakeChunkBytes);
  const Wanted wanted{.size_bytes = size_bytes,
                      .segment_bytes = rules_.segment_bytes(size_bytes),
                      .lane = cache_.lane_for(request.pool, request.stream, is_small),
                      .is_small = is_small};
  NodeId node = find_free(wanted);
  if (node == kNoNode) node = serve_slowly(wanted);
  return node == kNoNode ? 0 : hand_out(node, request);
}

NodeId GmLake::find_free(const Wanted& wanted) {
  const NodeId node = take_best_fit(wanted.lane, wanted.size_bytes);
  if (node != kNoNode) return carve(node, wanted);
  return wanted.is_small ? kNoNode : reuse_stitch(wanted);
}

NodeId GmLake::serve_slowly(const Wanted& wanted) {
  NodeId node = stitch(wanted, 0);
  if (node == kNoNode) node = grow(wanted);
  if (node == kNoNode) node = stitch(wanted, 1);
  if (node != kNoNode) return node;
  give_back_all();
  cache_.count_retry();
  node = grow(wanted);
  return node != kNoNode ? node : stitch(wanted, 2);
}

NodeId GmLake::grow(const Wanted& wanted) {
  if (is_refused_by_limit(wanted.segment_bytes)) return kNoNode;
  const NodeId node =
      wanted.is_small ? take_segment(wanted.segment_bytes, wanted.lane) : take_primitive(wanted);
  return node == kNoNode ? kNoNode : carve(node, wanted);
}

NodeId GmLake::take_primitive(const Wanted& wanted) {
  const uint64_t bytes = wanted.segment_bytes;
  const uint64_t address = segments_.reserve(bytes);
  if (address == 0) return kNoNode;
  if (!segments_.map(address, bytes, kGmLakeChunkBytes, SegmentSource::Access::kEachGranule)) {
    segments_.unreserve(address, bytes);
    return kNoNode;
  }
  const NodeId node = add_segment(address, bytes, wanted.lane);
  cache_[node].segment = static_cast<uint32_t>(primitives_.size());
  primitives_.push_back({address, bytes, node});
  free_bytes(wanted.lane) += bytes;
  return node;
}

// Sizes are multiples of what may be split off: 512 B, or a chunk.
NodeId GmLake::carve(NodeId node, const Wanted& wanted) {
  if (cache_[node].size_bytes > wanted.size_bytes) split_off_rest(node, wanted.size_bytes);
  if (!wanted.is_small) start_use(node);
  return node;
}

void GmLake::free(uint32_t block, int64_t time_ns) {
  static_cast<void>(time_ns);
  const NodeId node = cache_.node_of(block);
  if (node == kNoNode) return;
  segments_.gpu().spend(gpu::Call::kRecord);
  cache_.forget_tensor(node);
  release(node);
}

void GmLake::complete(uint32_t block, int64_t time_ns) {
  static_cast<void>(time_ns);
  const NodeId node = cache_.node_of(block);
  if (node != kNoNode) release(node);
}

void GmLake::release(NodeId id) {
  if (cache_.lane_of(cache_[id]).is_small) return cache_.complete(id);
  cache_.forget_block(id);
  const uint32_t segment = cache_[id].segment;
  if ((segment & kStitched) == 0) return end_use(id);
  cache_.drop_node(id);
  for (const NodeId held : std::exchange(stitches_[segment & ~kStitched].held, {})) end_use(held);
}

Stitches::Piece GmLake::range_of(NodeId id) {
  const Node& node = cache_[id];
  return {node.segment, node.address, node.size_bytes};
}

void GmLake::start_use(NodeId id) {
  cache_[id].state = NodeState::kAllocated;
  free_bytes(cache_[id].lane) -= cache_[id].size_bytes;
  stitches_.use(range_of(id));
}

void GmLake::end_use(NodeId id) {
  free_bytes(cache_[id].lane) += cache_[id].size_bytes;
  stitches_.leave(range_of(id));
  cache_.put_back(id);
  const Node& merged = cache_[id];
  if (merged.prev == kNoNode) primitives_[merged.segment].first = id;
}

// Free neighbours are always merged, so a free range is in one free node.
NodeId GmLake::occupy(const Stitches::Piece& range) {
  NodeId id = primitives_[range.segment].first;
  while (cache_[id].address + cache_[id].size_bytes <= range.address) id = cache_[id].next;
  VRAM_CHECK(cache_[id].state == NodeState::kFree);
  cache_.take_free(id);
  if (cache_[id].address < range.address) {
    const NodeId upper = cache_.split(id, range.address - cache_[id].address);
    cache_.put_free(id);
    id = upper;
  }
  if (cache_[id].size_bytes > range.bytes) split_off_rest(id, range.bytes);
  start_use(id);
  return id;
}

bool GmLake::may_stitch(const Wanted& wanted, uint64_t level) {
  if (wanted.is_small || level < settings_.defrag_level) return false;
  if (wanted.size_bytes < settings_.frag_limit_bytes) return false;
  return free_bytes(wanted.lane) >= wanted.size_bytes && cache_.lane(wanted.lane).free.size() >= 2;
}

// From the largest free block downwards; of the last one as much as is needed.
NodeId GmLake::stitch(const Wanted& wanted, uint64_t level) {
  if (!may_stitch(wanted, level)) return kNoNode;
  Stitches::Stitch made{.address = segments_.reserve(wanted.size_bytes),
                        .bytes = wanted.size_bytes,
                        .busy_bytes = wanted.size_bytes,
                        .lane = wanted.lane,
                        .pieces = {},
                        .held = {}};
  if (made.address == 0) return kNoNode;
  for (uint64_t done = 0; done < made.bytes;) {
    const NodeId node = cache_.lane(wanted.lane).free.largest()->node;
    cache_.take_free(node);
    const uint64_t missing = made.bytes - done;
    if (cache_[node].size_bytes > missing) split_off_rest(node, missing);
    start_use(node);
    const Stitches::Piece piece = range_of(node);
    segments_.alias(piece.address, made.address + done, piece.bytes, kGmLakeChunkBytes);
    made.pieces.push_back(piece);
    made.held.push_back(node);
    done += piece.bytes;
  }
  const Stitches::Id id = stitches_.add(std::move(made));
  if (stitches_.total_bytes() > settings_.auto_gc_bytes) collect_stitches();
  return node_for(id, wanted.size_bytes);
}

NodeId GmLake::reuse_stitch(const Wanted& wanted) {
  const double most = static_cast<double>(wanted.size_bytes) * settings_.reuse_limit;
  const auto max_bytes = static_cast<uint64_t>(std::min(most, double{kMaxRequestBytes}));
  const auto id = stitches_.best_fit(wanted.lane, wanted.size_bytes, max_bytes);
  if (!id) return kNoNode;
  Stitches::Stitch& found = stitches_[*id];
  uint64_t missing = wanted.size_bytes;
  for (Stitches::Piece piece : found.pieces) {
    if (missing == 0) break;
    piece.bytes = std::min(piece.bytes, missing);
    found.held.push_back(occupy(piece));
    missing -= piece.bytes;
  }
  return node_for(*id, wanted.size_bytes);
}

NodeId GmLake::node_for(Stitches::Id id, uint64_t size_bytes) {
  Node node;
  node.address = stitches_[id].address;
  node.size_bytes = size_bytes;
  node.lane = stitches_[id].lane;
  node.segment = id | kStitched;
  return cache_.add_node(node);
}

void GmLake::drop_stitch(Stitches::Id id) {
  const Stitches::Stitch& stitch = stitches_[id];
  segments_.drop_aliases(stitch.address, stitch.bytes);
  segments_.unreserve(stitch.address, stitch.bytes);
  stitches_.drop(id);
}

void GmLake::collect_stitches() {
  for (const Stitches::Id id : stitches_.idle()) drop_stitch(id);
}

void GmLake::empty_cache() {
  give_back_all();
  collect_stitches();
}

// As in PyTorch, private pools keep their memory.
void GmLake::give_back_all() {
  cache_.complete_pending([this](NodeId id) { release(id); });
  for (const NodeId id : cache_.free_nodes(cache_.default_group(false))) {
    if (cache_[id].is_whole()) give_back_primitive(id);
  }
  give_back_segments(cache_.default_group(true));
}

void GmLake::give_back_primitive(NodeId id) {
  const uint32_t number = cache_[id].segment;
  const std::vector<Stitches::Id> over = stitches_.over(number);
  const auto is_in_use = [this](Stitches::Id each) { return !stitches_[each].held.empty(); };
  if (std::ranges::any_of(over, is_in_use)) return;
  for (const Stitches::Id each : over) drop_stitch(each);
  const Segment& segment = primitives_[number];
  cache_.take_free(id);
  cache_.drop_reserved(segment.bytes);
  free_bytes(cache_[id].lane) -= segment.bytes;
  segments_.unmap(segment.address, segment.bytes, kGmLakeChunkBytes);
  segments_.unreserve(segment.address, segment.bytes);
  cache_.drop_node(id);
}

uint64_t& GmLake::free_bytes(uint32_t lane) {
  if (lane >= free_bytes_.size()) free_bytes_.resize(lane + 1);
  return free_bytes_[lane];
}

uint64_t GmLake::largest_free_bytes(const Request& request) const {
  const bool is_small = rules_.round(request.size_bytes) <= kSmallRequestBytes;
  return cache_.largest_free_bytes(request.pool, request.stream, is_small);
}

std::unique_ptr<Allocator> make_gmlake(Settings settings, const PeerContext& context) {
  return std::make_unique<GmLake>(parse_gmlake_settings(settings).value(), context);
}

namespace {

constexpr std::array<PeerKey, 4> kGmLakeKeys{{
    {"fragLimit", "SIZE"},
    {"reuseLimit", "NUMBER above 0"},
    {"defragLevel", "0, 1 or 2"},
    {"autoGC", "GIBIBYTES, or SIZE with a unit"},
}};

constexpr uint64_t kMaxGibibytes = uint64_t{1} << 30;

std::optional<double> read_reuse_limit(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0)) return {};
  return value;
}

std::optional<uint64_t> read_level(std::string_view text) {
  const std::optional<uint64_t> level = read_whole_number(text);
  return level && *level <= 2 ? level : std::nullopt;
}

// In the environment it is a bare number of GiB.
std::optional<uint64_t> read_auto_gc(std::string_view text) {
  const std::optional<uint64_t> gibibytes = read_whole_number(text);
  if (!gibibytes) return read_size(text);
  return *gibibytes <= kMaxGibibytes ? std::optional(*gibibytes * kGiB) : std::nullopt;
}

bool read(std::string_view key, std::string_view value, GmLakeSettings& to) {
  if (key == "fragLimit") return keep(read_size(value), to.frag_limit_bytes);
  if (key == "reuseLimit") return keep(read_reuse_limit(value), to.reuse_limit);
  if (key == "defragLevel") return keep(read_level(value), to.defrag_level);
  return keep(read_auto_gc(value), to.auto_gc_bytes);
}

}  // namespace

std::span<const PeerKey> gmlake_keys() { return kGmLakeKeys; }

Result<GmLakeSettings> parse_gmlake_settings(Settings settings) {
  return parse_settings<GmLakeSettings>("gmlake", kGmLakeKeys, settings, read);
}

}  // namespace vram::replay
