// Arena: the parts that the pool's memory is cut into. Every byte of it has one address, its home,
// and belongs to one node; free neighbours are one node as far as stream order allows. Below the
// pool's recipe (pool.hpp); knows nothing of handles, mappings or the driver.
//
// Whose free memory is whose: a node that a stream may still use is in that stream's index, one
// that nothing uses in that of kNoStream. Neighbours are joined when both are of one stream, or one
// has nothing to wait for. One thread at a time; allocates when there were never as many nodes.
#pragma once

#include "pool/node.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::pool {

class Arena {
 public:
  Arena() { add_stream(0); }
  // The stream's number, from 1 on; a new one where it has none.
  [[nodiscard]] StreamIndex stream_index(StreamHandle stream);
  // kNoStream where it has none.
  [[nodiscard]] StreamIndex find_stream(StreamHandle stream) const;
  // The stream is gone, and is named by the alias from now on.
  void rename_stream(StreamIndex index, StreamHandle alias) { streams_[index] = alias; }
  // Nothing refers to it any more: another stream gets the number.
  void drop_stream(StreamIndex index);
  // And back; that of kNoStream says nothing.
  [[nodiscard]] StreamHandle stream(StreamIndex index) const { return streams_[index]; }
  [[nodiscard]] StreamIndex stream_count() const {
    return static_cast<StreamIndex>(streams_.size());
  }

  // New memory that nothing uses, for that stream; joined to what ends or begins there, where that
  // may be. The node that holds it.
  NodeId add(Address address, uint64_t bytes, Lane lane, bool may_join = true,
             StreamIndex stream = kNoStream);
  // A live node leaves the arena; its neighbours have none there any more.
  void remove(NodeId id);

  // The best fit among what the stream may use at once.
  [[nodiscard]] NodeId best_fit(Lane lane, StreamIndex stream, uint64_t bytes) const;
  // The best fit among all that is free, used by whomever.
  [[nodiscard]] NodeId best_fit_of_all(Lane lane, uint64_t bytes) const;

  // The node that holds the address; kNoNode where it is in none.
  [[nodiscard]] NodeId at(Address address) const;
  // The free node that holds all of the range, if the stream may use it at once.
  [[nodiscard]] NodeId find_free(Address address, uint64_t bytes, StreamIndex stream) const;

  // Makes a live node of a part of a free one. What lies before it keeps the id, what lies behind
  // gets a new one.
  struct Carved {
    NodeId part = kNoNode;
    NodeId rest = kNoNode;
  };
  Carved carve(NodeId free_node, Address address, uint64_t bytes);
  // A live node keeps its first bytes; the rest is a live one, too.
  [[nodiscard]] NodeId cut(NodeId id, uint64_t bytes) { return split(id, bytes); }
  // A live node becomes free after the stamped work of its stream, and one with its neighbours.
  NodeId put(NodeId id, StreamIndex stream, Stamp stamp);
  // A free node of which nothing is in use any more.
  NodeId settle(NodeId id);

  [[nodiscard]] const Node& operator[](NodeId id) const { return nodes_[id]; }
  [[nodiscard]] const FreeIndex& index(Lane lane, StreamIndex stream) const {
    return indexes_[stream * kLaneCount + static_cast<uint32_t>(lane)];
  }
  template <typename Visit>
  void for_each_free(StreamIndex stream, Visit visit) const {
    index(Lane::kSmall, stream).for_each(nodes_, visit);
    index(Lane::kLarge, stream).for_each(nodes_, visit);
  }
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] uint64_t free_bytes() const { return free_bytes_; }
  // Of one free node, used by whomever.
  [[nodiscard]] uint64_t largest_free_bytes() const;

  // Empty, or what does not hold.
  [[nodiscard]] std::string validate() const;

 private:
  [[nodiscard]] FreeIndex& index_of(const Node& node) {
    return indexes_[node.stream * kLaneCount + static_cast<uint32_t>(node.lane)];
  }
  StreamIndex add_stream(StreamHandle stream);
  void chain(NodeId id);
  [[nodiscard]] NodeId new_node();
  void drop_node(NodeId id);
  [[nodiscard]] NodeId split(NodeId id, uint64_t bytes);
  void insert(NodeId id);
  void erase(NodeId id);
  [[nodiscard]] bool joins(const Node& a, const Node& b) const;
  [[nodiscard]] NodeId join_neighbours(NodeId id);
  void absorb(NodeId id, NodeId next);
  [[nodiscard]] std::string check_node(NodeId id) const;
  [[nodiscard]] std::string check_indexes() const;

  std::vector<Node> nodes_;
  std::vector<NodeId> spare_;
  Starts starts_;
  std::vector<FreeIndex> indexes_;     // by stream and lane
  std::vector<StreamHandle> streams_;  // by their numbers
  std::vector<StreamIndex> spare_streams_;
  uint64_t free_bytes_ = 0;
};

// Leases: memory of the pool that is lent to a shelf (shelf.hpp), which cuts it into blocks of its
// own. A lease is a live node of the arena that belongs to no block. It comes back piece by piece,
// from its beginning. One thread at a time.

// Memory that a shelf cuts into blocks.
struct Lease {
  Address address = 0;
  uint64_t bytes = 0;
  NodeId node = kNoNode;
  Lane lane = Lane::kLarge;
};

class Leases {
 public:
  // arena must outlive it.
  explicit Leases(Arena& arena) : arena_(arena) {}

  // Lends a free piece that the stream may use at once: of max_bytes, else of half as much, and so
  // on down to min_bytes. False: there is none.
  [[nodiscard]] bool lend(uint64_t min_bytes, uint64_t max_bytes, StreamIndex stream, Lease* lease);
  // The first bytes of the lease come back, as a live node that belongs to the caller.
  [[nodiscard]] NodeId take_back(Lease* lease, uint64_t bytes);
  // Bytes that are lent now.
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  Arena& arena_;
  uint64_t bytes_ = 0;
};

}  // namespace vram::pool
