// Returns: turns freed blocks into free memory. Freed memory is available to its own stream at
// once, behind a stamp of that stream's work (device.hpp), and to all streams once that work is
// done (settle). A block that other streams use is held until they are done, too.
//
//     free ──▶ HeldBlocks while other streams use it
//          ──▶ arena: free for its stream ──▶ settle: free for all
//     forget ──▶ a stream that is gone is known by an alias until its work is done
//
// One thread at a time. Calls the driver only for the order of several streams.
#pragma once

#include "pool/arena.hpp"
#include "pool/blocks.hpp"
#include "pool/device.hpp"
#include "pool/interface.hpp"
#include "pool/stitches.hpp"
#include "pool/supply.hpp"

#include <cstdint>
#include <vector>

namespace vram::pool {

// HeldBlocks: which streams use a block besides its own stream, and until when, once the block is
// freed. A block is held while any of them may still use it. Identifies blocks by their ids alone;
// the caller of settle() turns released blocks into free memory. One thread at a
// time.
//
//     use(block, stream) … ──▶ hold(block): each of these streams gets a stamp, and an event
//                         ──▶ settle(): streams whose work is done no longer hold it
//     hold_until_finish(block) ──▶ finish(block): held by a caller that knows when it is done
class HeldBlocks {
 public:
  // Both must outlive this. The arena numbers the streams.
  HeldBlocks(Device& device, const Arena& arena) : device_(device), arena_(arena) {}

  // The stream, which is not the block's own, uses the live block, too. True: this was not known.
  bool use(BlockId block, StreamIndex stream);
  // The block is freed: its other streams hold it until their work up to now is done.
  void hold(BlockId block);
  // The block is freed, but in use until finish() is called.
  void hold_until_finish(BlockId block) { held_.push_back({block}); }
  void finish(BlockId block);

  [[nodiscard]] bool empty() const { return held_.empty(); }
  // Whether a stream or hold_until_finish() still holds it.
  [[nodiscard]] bool is_held(BlockId block) const;
  // Checks the progress of all streams. Calls released(block) for each block that is no longer
  // held; a block that several streams held may come more than once.
  template <typename Released>
  void settle(Released released) {
    for (const BlockId block : drop_done()) {
      if (!is_held(block)) released(block);
    }
  }
  // Releases all blocks. Returns those that were held, once for each stream that held them.
  [[nodiscard]] std::vector<BlockId> take_all();
  // The stream is gone and its work is done.
  void forget_stream(StreamIndex stream);

 private:
  // A block, and a stream besides its own that uses it; once it is freed, until when.
  struct Use {
    BlockId block;
    StreamIndex stream = kNoStream;  // kNoStream: until finish()
    Stamp stamp = 0;
  };
  // The blocks whose uses were done.
  [[nodiscard]] std::vector<BlockId> drop_done();

  Device& device_;
  const Arena& arena_;
  std::vector<Use> uses_;  // of live blocks
  std::vector<Use> held_;  // of freed ones
};

class Returns {
 public:
  // All arguments must outlive this.
  Returns(Device& device, Arena& arena, Stitches& stitches, Blocks& blocks, const Supply& supply)
      : device_(device),
        arena_(arena),
        stitches_(stitches),
        blocks_(blocks),
        supply_(supply),
        held_(device, arena) {}

  // See the functions of Pool with the same names.
  void free(BlockId block);
  void record_stream(BlockId block, StreamHandle stream);
  void hold(BlockId block);
  void finish(BlockId block);
  void forget(StreamHandle stream);
  [[nodiscard]] Status wait();

  // Live memory that belongs to no block becomes free for the stream.
  void put(NodeId part, StreamIndex stream) { arena_.put(part, stream, stamp_of_free(stream)); }
  // Makes memory that streams have finished with available to all. Has no effect with one stream.
  void settle();
  // Call it before each request: every kRequestsPerCheck requests, it frees held blocks that are no
  // longer used.
  void look() {
    if (!held_.empty() && ++requests_ % kRequestsPerCheck == 0) settle_held();
  }
  // Notified of held blocks that are finished; nullptr: none. Must outlive this.
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  // With several streams: after this many frees of one, its progress is worth an event; after this
  // many requests, the blocks that other streams use are worth a check. Where memory is short a
  // stream may soon have to wait for another, and each free is worth an event: what is queued
  // behind it is not waited for then.
  static constexpr uint32_t kFreesPerMark = 64;
  static constexpr uint32_t kRequestsPerCheck = 64;

  [[nodiscard]] Stamp stamp_of_free(StreamIndex stream);
  void hold_for_uses(Blocks::Block& block, BlockId id);
  void release(uint32_t index);
  void settle_held();
  void settle_stream(StreamIndex stream);
  void drop_closed_streams();

  Device& device_;
  Arena& arena_;
  Stitches& stitches_;
  Blocks& blocks_;
  const Supply& supply_;
  HeldBlocks held_;
  std::vector<StreamIndex> closed_;  // streams that are gone, of which something is known still
  Observer* observer_ = nullptr;
  uint32_t frees_ = 0;
  uint32_t requests_ = 0;
};

}  // namespace vram::pool
