#include "pool/returns.hpp"

#include "base/result.hpp"
#include "pool/device.hpp"

#include <algorithm>
#include <utility>

namespace vram::pool {

bool HeldBlocks::use(BlockId block, StreamIndex stream) {
  const bool is_known = std::ranges::any_of(
      uses_, [&](const Use& use) { return use.block == block && use.stream == stream; });
  if (!is_known) uses_.push_back({block, stream});
  return !is_known;
}

bool HeldBlocks::is_held(BlockId block) const {
  return std::ranges::any_of(held_, [block](const Use& use) { return use.block == block; });
}

void HeldBlocks::hold(BlockId block) {
  std::erase_if(uses_, [&](const Use& use) {
    if (use.block != block) return false;
    const StreamHandle stream = arena_.stream(use.stream);
    held_.push_back({block, use.stream, device_.stamp(stream)});
    device_.mark(stream);
    return true;
  });
}

void HeldBlocks::finish(BlockId block) {
  std::erase_if(held_,
                [block](const Use& use) { return use.block == block && use.stream == kNoStream; });
}

std::vector<BlockId> HeldBlocks::drop_done() {
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
  return changed;
}

std::vector<BlockId> HeldBlocks::take_all() {
  std::vector<BlockId> blocks;
  for (const Use& use : std::exchange(held_, {})) blocks.push_back(use.block);
  return blocks;
}

void HeldBlocks::forget_stream(StreamIndex stream) {
  std::erase_if(uses_, [stream](const Use& use) { return use.stream == stream; });
}

// Stands for what the stream has queued by now; where it pays, with an event behind that.
Stamp Returns::stamp_of_free(StreamIndex stream) {
  if (stream == kNoStream) return 0;
  const StreamHandle handle = arena_.stream(stream);
  const Stamp stamp = device_.stamp(handle);
  if (arena_.stream_count() > 2 && (++frees_ % kFreesPerMark == 0 || supply_.is_nearly_full())) {
    device_.mark(handle);
  }
  return stamp;
}

void Returns::free(BlockId id) {
  Blocks::Block* block = blocks_.find(id);
  VRAM_CHECK(block != nullptr && !block->is_held);
  blocks_.count_free(*block);
  if (block->is_shared) hold_for_uses(*block, id);
  if (!block->is_shared || !held_.is_held(id)) release(id.index);
}

void Returns::record_stream(BlockId id, StreamHandle stream) {
  Blocks::Block* block = blocks_.find(id);
  VRAM_CHECK(block != nullptr && !block->is_held);
  const StreamIndex index = arena_.stream_index(stream);
  if (index != block->stream && held_.use(id, index)) block->is_shared = true;
}

// What its own stream queues from now on has nothing to do with it.
void Returns::hold_for_uses(Blocks::Block& block, BlockId id) {
  block.is_held = true;
  block.freed = stamp_of_free(block.stream);
  held_.hold(id);
}

void Returns::hold(BlockId id) {
  Blocks::Block* block = blocks_.find(id);
  VRAM_CHECK(block != nullptr && !block->is_held);
  hold_for_uses(*block, id);
  held_.hold_until_finish(id);
  blocks_.count_free(*block);
}

void Returns::finish(BlockId id) {
  const Blocks::Block* block = blocks_.find(id);
  if (block == nullptr || !block->is_held) return;
  held_.finish(id);
  if (!held_.is_held(id)) release(id.index);
}

void Returns::release(uint32_t index) {
  Blocks::Block& block = blocks_[index];
  if (block.is_held && observer_ != nullptr) observer_->finished(block.address);
  const StreamIndex stream = block.stream;
  const Stamp stamp = block.is_held && stream != kNoStream ? block.freed : stamp_of_free(stream);
  blocks_.end(block);
  if (block.stitch == kNoStitch) {
    arena_.put(index, stream, stamp);
    return;
  }
  for (const NodeId part : stitches_.unuse(block.stitch, arena_.stream(stream), stamp)) {
    arena_.put(part, stream, stamp);
  }
}

// Free is what none of its streams uses any more.
void Returns::settle_held() {
  held_.settle([this](BlockId id) {
    if (blocks_.find(id) != nullptr) release(id.index);
  });
}

void Returns::settle() {
  if (arena_.stream_count() <= 2) return;
  settle_held();
  for (StreamIndex stream = 1; stream < arena_.stream_count(); ++stream) settle_stream(stream);
}

void Returns::settle_stream(StreamIndex stream) {
  std::vector<NodeId> done;
  Progress progress(device_, arena_.stream(stream));
  arena_.for_each_free(stream, [&](NodeId id) {
    if (progress.is_done(arena_[id].stamp)) done.push_back(id);
  });
  for (const NodeId id : done) {
    const Node& node = arena_[id];
    if (node.state == NodeState::kFree && node.stream == stream) arena_.settle(id);
  }
}

Status Returns::wait() {
  Status status = Status::kOk;
  for (StreamIndex i = 1; i < arena_.stream_count(); ++i) {
    const Status waited = device_.wait(arena_.stream(i), kLastStamp);
    if (waited != Status::kOk) status = waited;
  }
  if (status == Status::kOk) {
    for (const BlockId id : held_.take_all()) {
      if (blocks_.find(id) != nullptr) release(id.index);
    }
  }
  settle_held();
  settle();
  drop_closed_streams();
  return status;
}

void Returns::forget(StreamHandle stream) {
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
void Returns::drop_closed_streams() {
  std::erase_if(closed_, [this](StreamIndex index) {
    if (!device_.is_done(arena_.stream(index), kLastStamp)) return false;
    settle_held();
    settle_stream(index);
    held_.forget_stream(index);
    blocks_.forget_stream(index);
    arena_.drop_stream(index);
    return true;
  });
}

}  // namespace vram::pool
