// Blocks: the pool's live blocks, indexed by the node of their first part. Stores what a node does
// not: the requested bytes, and whether the block is one node at its home or several that a stitch
// shows as one range. Counts the blocks in the pool's Stats. Does not decide when memory is free
// (returns.hpp). One thread at a time; allocates when there are more nodes than ever before.
#pragma once

#include "pool/arena.hpp"
#include "pool/interface.hpp"
#include "pool/node.hpp"
#include "pool/oom.hpp"
#include "pool/stitches.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace vram::pool {

// A block, for as long as it lives; a block that has its index later has another serial. Serials
// wrap: they say nothing without the index.
struct BlockId {
  uint32_t index = std::numeric_limits<uint32_t>::max();
  uint32_t serial = 0;
  friend bool operator==(const BlockId&, const BlockId&) = default;
};

struct Allocation {
  Address address = 0;  // 0: out of memory
  BlockId block;
};

// A live block, or a part of the pool's memory as Pool::visit() shows it.
struct BlockInfo {
  Address address = 0;
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;
  StreamHandle stream = 0;
  bool is_live = false;
  bool is_held = false;  // live, but freed: work of other streams still uses it
};

// A request, rounded.
struct Wanted {
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;
  StreamIndex stream = kNoStream;
  Lane lane = Lane::kLarge;
};

class Blocks {
 public:
  struct Block {
    Address address = 0;
    uint64_t size_bytes = 0;
    uint64_t requested_bytes = 0;
    Stamp freed = 0;  // of its own stream's work, while it is held
    uint32_t serial = 0;
    StreamIndex stream = kNoStream;
    StitchId stitch = kNoStitch;
    bool is_live = false;
    bool is_held = false;
    bool is_shared = false;  // record_stream named other streams
  };

  // All arguments must outlive this.
  Blocks(const Arena& arena, const Stitches& stitches, Stats& stats)
      : arena_(arena), stitches_(stitches), stats_(stats) {}

  // Adds a block whose first part is that live node, which belongs to no other block.
  [[nodiscard]] Allocation add(NodeId node, Address address, const Wanted& wanted,
                               StitchId stitch) {
    if (node >= blocks_.size()) blocks_.resize(arena_.nodes().size());
    blocks_[node] = {.address = address,
                     .size_bytes = wanted.size_bytes,
                     .requested_bytes = wanted.requested_bytes,
                     .serial = ++last_serial_,
                     .stream = wanted.stream,
                     .stitch = stitch,
                     .is_live = true};
    stats_.allocation.add(1);
    stats_.allocated_bytes.add(wanted.size_bytes);
    stats_.active_bytes.add(wanted.size_bytes);
    stats_.requested_bytes.add(wanted.requested_bytes);
    return {address, {node, last_serial_}};
  }
  // The program has freed the block, which may stay live while streams use it.
  void count_free(const Block& block) {
    stats_.allocation.drop(1);
    stats_.allocated_bytes.drop(block.size_bytes);
  }
  // Ends the block. Its parts belong to the caller now.
  void end(Block& block) {
    stats_.active_bytes.drop(block.size_bytes);
    stats_.requested_bytes.drop(block.requested_bytes);
    block.is_live = false;
  }

  // nullptr: the block is no longer live.
  [[nodiscard]] Block* find(BlockId id) {
    if (id.index >= blocks_.size()) return nullptr;
    Block& block = blocks_[id.index];
    return block.is_live && block.serial == id.serial ? &block : nullptr;
  }
  // The block that has the index now, which there must be.
  [[nodiscard]] Block& operator[](uint32_t index) { return blocks_[index]; }
  [[nodiscard]] const Block& operator[](uint32_t index) const { return blocks_[index]; }
  [[nodiscard]] BlockId id_of(uint32_t index) const { return {index, blocks_[index].serial}; }
  // Includes entries that are no longer live.
  [[nodiscard]] const std::vector<Block>& all() const { return blocks_; }

  // The live block that contains the address; none if the program has freed it.
  [[nodiscard]] BlockId at(Address address) const;
  // The first part of the block that this live part belongs to; kNoNode: it belongs to no block.
  [[nodiscard]] NodeId first_part_of(NodeId part) const;
  // The block sizes that hold most memory, without blocks that the program has freed. Allocates
  // nothing.
  [[nodiscard]] Holders find_holders() const;
  // The stream is gone and its work is done, so its blocks have nothing to wait for.
  void forget_stream(StreamIndex stream);

  // The next block's serial follows this one: for tests of what happens when they wrap.
  void restart_serials(uint32_t last) { last_serial_ = last; }

 private:
  const Arena& arena_;
  const Stitches& stitches_;
  Stats& stats_;
  std::vector<Block> blocks_;
  uint32_t last_serial_ = 0;
};

}  // namespace vram::pool
