// Blocks that streams besides their own use.
#include "base/check.hpp"
#include "pool/pool.hpp"
#include "pool/progress.hpp"

#include <algorithm>

namespace vram::pool {

void Pool::record_stream(BlockId id, StreamHandle stream) {
  Blocks::Block* block = blocks_.find(id);
  VRAM_CHECK(block != nullptr && !block->is_held);
  const StreamIndex index = arena_.stream_index(stream);
  if (index == block->stream) return;
  const bool is_known = std::ranges::any_of(
      uses_, [&](const Use& use) { return use.block == id && use.stream == index; });
  if (is_known) return;
  block->is_shared = true;
  uses_.push_back({id, index});
}

bool Pool::is_used(BlockId id) const {
  return std::ranges::any_of(held_, [id](const Use& use) { return use.block == id; });
}

// Freed: from now on its other streams are asked whether they are done. What its own stream queues
// from now on has nothing to do with it.
void Pool::hold_for_uses(BlockId id) {
  Blocks::Block& block = blocks_[id.index];
  block.is_held = true;
  block.freed = stamp_of_free(block.stream);
  std::erase_if(uses_, [&](const Use& use) {
    if (use.block != id) return false;
    const StreamHandle stream = arena_.stream(use.stream);
    held_.push_back({id, use.stream, device_.stamp(stream)});
    device_.mark(stream);
    return true;
  });
}

void Pool::hold(BlockId id) {
  Blocks::Block* block = blocks_.find(id);
  VRAM_CHECK(block != nullptr && !block->is_held);
  hold_for_uses(id);
  held_.push_back({id});
  blocks_.count_free(*block);
}

void Pool::finish(BlockId id) {
  const Blocks::Block* block = blocks_.find(id);
  if (block == nullptr || !block->is_held) return;
  std::erase_if(held_, [id](const Use& use) { return use.block == id && use.stream == kNoStream; });
  if (!is_used(id)) release(id.index);
}

// Free is what none of its streams uses any more.
void Pool::settle_held() {
  std::vector<BlockId> changed;
  std::vector<Progress> progress;  // by stream
  progress.reserve(arena_.stream_count());
  for (StreamIndex i = 0; i < arena_.stream_count(); ++i) {
    progress.emplace_back(device_, arena_.stream(i));
  }
  std::erase_if(held_, [&](const Use& use) {
    if (use.stream == kNoStream || !progress[use.stream].is_done(use.stamp)) return false;
    changed.push_back(use.block);
    return true;
  });
  for (const BlockId id : changed) {
    if (!is_used(id) && blocks_.find(id) != nullptr) release(id.index);
  }
}

Status Pool::wait() {
  Status status = Status::kOk;
  for (StreamIndex i = 1; i < arena_.stream_count(); ++i) {
    const Status waited = device_.wait(arena_.stream(i), kLastStamp);
    if (waited != Status::kOk) status = waited;
  }
  if (status == Status::kOk) {
    for (const Use& use : std::exchange(held_, {})) {
      if (blocks_.find(use.block) != nullptr) release(use.block.index);
    }
  }
  settle_held();
  settle();
  drop_closed_streams();
  return status;
}

void Pool::forget(StreamHandle stream) {
  const StreamIndex index = arena_.find_stream(stream);
  if (index != kNoStream) {
    const StreamHandle alias = device_.close(stream);
    arena_.rename_stream(index, alias);
    stitches_.rename(stream, alias);
    closed_.push_back(index);
  }
  drop_closed_streams();
}

// Of streams that are gone, and whose work is done, nothing need be known.
void Pool::drop_closed_streams() {
  std::erase_if(closed_, [this](StreamIndex index) {
    if (!device_.is_done(arena_.stream(index), kLastStamp)) return false;
    settle_held();
    settle_stream(index);
    std::erase_if(uses_, [index](const Use& use) { return use.stream == index; });
    blocks_.forget_stream(index);
    arena_.drop_stream(index);
    return true;
  });
}

}  // namespace vram::pool
