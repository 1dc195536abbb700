// CachingBase: the common part of emulated caching allocators: blocks freed by the program,
// segments taken from and released to the simulated GPU, and the limit on reserved bytes. Between
// Allocator and the peers, above BlockCache. Single-threaded; allocates at most once for each
// segment.
#pragma once

#include "base/address_map.hpp"
#include "base/bytes.hpp"
#include "replay/allocator.hpp"
#include "replay/peers/free_set.hpp"
#include "replay/segment_source.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace vram::replay {

// BlockCache: the common part of caching allocators: blocks linked by address within their segment,
// a FreeSet of free blocks for each (pool, size class, stream), merging and splitting, and the byte
// counters of PyTorch's statistics. Makes no driver calls. Not thread-safe; blocks are in one array
// and are reused, so no call allocates.
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = 0xffffffff;

// kPending: the tensor was freed, but other streams still use the block.
enum class NodeState : uint8_t { kFree, kAllocated, kPending };

// A line of the cache.
struct alignas(64) Node {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;
  // its pool's searches when it became free: its age, for garbage collection
  uint64_t searches_then = 0;
  NodeId prev = kNoNode;  // neighbours by address in the same segment
  NodeId next = kNoNode;
  uint32_t lane = 0;
  uint32_t segment = 0;  // for the allocator's use
  uint32_t block = 0;    // the program's number of the block that is here
  NodeState state = NodeState::kFree;
  bool is_mapped = true;
  [[nodiscard]] bool is_whole() const { return prev == kNoNode && next == kNoNode; }
};

// One stream's blocks in one pool and size class: requests are served from here and nowhere else.
struct Lane {
  FreeSet free;
  std::map<uint64_t, NodeId> unmapped;  // by address; expandable segments only
  uint64_t stream_handle = 0;
  uint32_t group = 0;
  trace::PoolId pool = 0;
  bool is_small = false;
};

// The lanes of one pool and size class, and the searches that went through it.
struct LaneGroup {
  std::vector<uint32_t> lanes;  // by stream handle
  uint64_t searches = 0;
};

class BlockCache {
 public:
  // stream_handles must outlive it.
  BlockCache(std::span<const uint64_t> stream_handles, uint32_t block_count);

  [[nodiscard]] uint32_t lane_for(trace::PoolId pool, trace::StreamId stream, bool is_small) {
    const uint64_t key = lane_key(pool, stream, is_small);
    const uint32_t found = lane_ids_.find(key);
    return found != AddressMap::kNone ? found : add_lane(key);
  }
  [[nodiscard]] Lane& lane(uint32_t id) { return lanes_[id]; }
  [[nodiscard]] Lane& lane_of(const Node& node) { return lanes_[node.lane]; }
  [[nodiscard]] LaneGroup& group_of(const Lane& lane) { return groups_[lane.group]; }
  // Of the default pool: memory that the allocator itself may release.
  [[nodiscard]] LaneGroup& default_group(bool is_small) { return groups_[is_small ? 1 : 0]; }

  [[nodiscard]] Node& operator[](NodeId id) { return nodes_[id]; }
  [[nodiscard]] NodeId add_node(const Node& node) {
    const NodeId id = new_node();
    nodes_[id] = node;
    return id;
  }
  void drop_node(NodeId id) { unused_.push_back(id); }

  void put_free(NodeId id) {
    Node& node = nodes_[id];
    Lane& lane = lanes_[node.lane];
    node.searches_then = groups_[lane.group].searches;
    lane.free.insert({node.size_bytes, node.address, id});
  }
  void take_free(NodeId id) {
    const Node& node = nodes_[id];
    lanes_[node.lane].free.erase(node.size_bytes, node.address);
  }

  // Splits off the upper part as a new node, which is in no set yet.
  NodeId split(NodeId id, uint64_t size_bytes);
  // Swallows a neighbour (kNoNode: nothing) that is free, of the same lane, and mapped as `id` is;
  // the neighbour leaves its set.
  void merge(NodeId id, NodeId neighbour);

  void hand_out(NodeId id, uint32_t block, uint64_t requested_bytes);
  // The tensor was freed. complete() or set_pending() follows.
  void forget_tensor(NodeId id) { usage_.allocated_bytes -= nodes_[id].size_bytes; }
  // No stream uses the block any more: merges it with its free neighbours.
  void complete(NodeId id) {
    forget_block(id);
    put_back(id);
  }
  // The two halves of complete(): the program's block ends, and the node goes to its neighbours.
  void forget_block(NodeId id);
  void put_back(NodeId id);
  void set_pending(NodeId id);
  // All pending blocks, as after waiting for the device; complete_one(id) does what complete()
  // does.
  template <typename CompleteOne>
  void complete_pending(CompleteOne complete_one) {
    std::vector<NodeId> waiting;
    waiting.swap(pending_);
    for (const NodeId id : waiting) {
      if (nodes_[id].state == NodeState::kPending) complete_one(id);
    }
  }
  void complete_pending() {
    complete_pending([this](NodeId id) { complete(id); });
  }

  // kNoNode when the block is not in use.
  [[nodiscard]] NodeId node_of(uint32_t block) const { return node_of_block_[block]; }

  [[nodiscard]] uint64_t largest_free_bytes(trace::PoolId pool, trace::StreamId stream,
                                            bool is_small) const {
    const uint32_t lane = lane_ids_.find(lane_key(pool, stream, is_small));
    return lane != AddressMap::kNone ? largest_free_bytes(lane) : 0;
  }
  [[nodiscard]] uint64_t largest_free_bytes(uint32_t lane) const {
    const FreeBlock* largest = lanes_[lane].free.largest();
    return largest != nullptr ? largest->size_bytes : 0;
  }
  // Free blocks of a lane by size and address; of a group in the order of PyTorch's sets: by
  // stream, size, address.
  [[nodiscard]] std::vector<NodeId> free_nodes(uint32_t lane) const;
  [[nodiscard]] std::vector<NodeId> free_nodes(const LaneGroup& group) const;

  void add_reserved(uint64_t bytes) {
    usage_.reserved_bytes += bytes;
    if (usage_.reserved_bytes > counters_.peak_reserved_bytes) {
      counters_.peak_reserved_bytes = usage_.reserved_bytes;
    }
    ++counters_.device_allocs;
  }
  void drop_reserved(uint64_t bytes) {
    usage_.reserved_bytes -= bytes;
    ++counters_.device_frees;
  }
  void count_retry() { ++counters_.retries; }
  void count_stream_wait() { ++counters_.stream_waits; }
  [[nodiscard]] const Usage& usage() const { return usage_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static uint64_t lane_key(trace::PoolId pool, trace::StreamId stream, bool is_small) {
    if (pool == trace::kUnknownPool) pool = 0;
    return (uint64_t{pool} << 17) | (uint64_t{stream} << 1) | (is_small ? 1 : 0);
  }
  uint32_t add_lane(uint64_t key);
  // Its contents are those of a node before, or a new one's.
  [[nodiscard]] NodeId new_node();

  std::span<const uint64_t> stream_handles_;
  std::vector<Node> nodes_;
  std::vector<NodeId> unused_;
  std::vector<Lane> lanes_;
  std::vector<LaneGroup> groups_;
  AddressMap lane_ids_;   // (pool, stream, size class) -> lane
  AddressMap group_ids_;  // (pool, size class) -> group
  std::vector<NodeId> node_of_block_;
  std::vector<NodeId> pending_;  // and some that were completed since
  size_t pending_count_ = 0;
  Usage usage_;
  Counters counters_;
};

// The address returned for a request of 0 bytes: not null, without memory.
inline constexpr uint64_t kEmptyBlockAddress = 1;

class CachingBase : public Allocator {
 public:
  // limit_bytes: on reserved bytes. program and segments must outlive it.
  CachingBase(std::optional<uint64_t> limit_bytes, const Program& program, SegmentSource& segments)
      : limit_bytes_(limit_bytes),
        cache_(program.stream_handles, program.block_count),
        segments_(segments) {}

  void free(uint32_t block, int64_t time_ns) override;
  void free_later(uint32_t block, int64_t time_ns) override;
  void complete(uint32_t block, int64_t time_ns) override;

  [[nodiscard]] const Usage& usage() const override { return cache_.usage(); }
  [[nodiscard]] const Counters& counters() const override { return cache_.counters(); }

 protected:
  [[nodiscard]] bool is_refused_by_limit(uint64_t bytes) const {
    const uint64_t reserved = cache_.usage().reserved_bytes;
    return limit_bytes_ && (reserved > *limit_bytes_ || bytes > *limit_bytes_ - reserved);
  }
  // Returns a segment as one block, in no free set; kNoNode if the device has too little memory.
  // The caller checks the limit.
  [[nodiscard]] NodeId take_segment(uint64_t bytes, uint32_t lane);
  [[nodiscard]] NodeId take_segment_within_limit(uint64_t bytes, uint32_t lane) {
    return is_refused_by_limit(bytes) ? kNoNode : take_segment(bytes, lane);
  }
  [[nodiscard]] NodeId add_segment(uint64_t address, uint64_t bytes, uint32_t lane);
  [[nodiscard]] NodeId take_initial_segment(const InitialSegment& segment);
  // Puts a segment's initial blocks at their places in `node`, which begins where the segment does
  // and is in no free set; the space between them becomes free. `next` is the first block of no
  // earlier segment, and is advanced.
  void place_initial_blocks(NodeId node, const Program& program, const InitialSegment& segment,
                            uint32_t& next);
  // The block is free and is a whole segment.
  void give_back_segment(NodeId node);
  // Every such block of a group.
  void give_back_segments(const LaneGroup& group);
  // Every such block of a lane, by address.
  [[nodiscard]] std::vector<NodeId> free_segments(uint32_t lane);
  // Takes the smallest block that suffices, of those the lowest, out of the lane's free set.
  [[nodiscard]] NodeId take_best_fit(uint32_t lane, uint64_t size_bytes);
  // Splits off the part above size_bytes as a free block of the same lane.
  void split_off_rest(NodeId node, uint64_t size_bytes) {
    cache_.put_free(cache_.split(node, size_bytes));
  }
  // The result of requests that need no search: of 0 bytes, or of more than any device has.
  [[nodiscard]] static std::optional<uint64_t> answer_at_once(uint64_t requested_bytes) {
    if (requested_bytes == 0) return kEmptyBlockAddress;
    if (requested_bytes > gpu::kUnlimited) return 0;
    return std::nullopt;
  }
  // The block goes to the program: its address.
  [[nodiscard]] uint64_t hand_out(NodeId node, const Request& request) {
    cache_.hand_out(node, request.block, request.size_bytes);
    return cache_[node].address;
  }

  std::optional<uint64_t> limit_bytes_;
  BlockCache cache_;
  SegmentSource& segments_;
};

}  // namespace vram::replay
