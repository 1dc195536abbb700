// What an observer is told.
#include "pool/observer.hpp"
#include "pool/pool.hpp"

namespace vram::pool {

void Pool::tell_parts(const Blocks::Block& block, Observer& observer) const {
  if (block.stitch == kNoStitch) return;
  for (const auto& [home, bytes] : stitches_[block.stitch].shown) {
    observer.part(block.address, home, bytes);
  }
}

void Pool::tell_parts(BlockId id, Observer& observer) const {
  const Blocks::Block& block = blocks_[id.index];
  if (block.is_live && block.serial == id.serial) tell_parts(block, observer);
}

void Pool::tell_all(Observer& observer) const {
  for (HandleId id = 0; id < stock_.limit(); ++id) {
    if (stock_[id].bytes != 0) observer.found_mapped(stock_[id].home, stock_[id].bytes);
  }
  for (const Blocks::Block& block : blocks_.all()) {
    if (!block.is_live) continue;
    tell_parts(block, observer);
    observer.found_block(block.address, block.requested_bytes, arena_.stream(block.stream),
                         block.is_held     ? Found::kHeld
                         : block.is_shared ? Found::kShared
                                           : Found::kLive);
  }
}

}  // namespace vram::pool
