// HeldBlocks: which streams use a block besides its own stream, and until when, once the block is
// freed. A block is held while any of them may still use it. Identifies blocks by their ids alone;
// the caller of settle() turns released blocks into free memory (returns.hpp). One thread at a
// time.
//
//     use(block, stream) … ──▶ hold(block): each of these streams gets a stamp, and an event
//                         ──▶ settle(): streams whose work is done no longer hold it
//     hold_until_finish(block) ──▶ finish(block): held by a caller that knows when it is done
#pragma once

#include "pool/arena.hpp"
#include "pool/block.hpp"
#include "pool/device.hpp"

#include <vector>

namespace vram::pool {

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

}  // namespace vram::pool
