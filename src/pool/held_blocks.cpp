#include "pool/held_blocks.hpp"

#include "pool/progress.hpp"

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

}  // namespace vram::pool
