#include "pages/texts.hpp"

#include "base/varint.hpp"
#include "explain/site/site.hpp"

#include <utility>

namespace vram::pages {

PageTexts::PageTexts(const trace::Tables& tables)
    : tables_(tables),
      texts_(1),
      text_ids_{{std::string(), 0}},
      room_bytes_(explain::kMaxStacksBytes),
      stack_ids_(tables.stacks.size()),
      frame_ids_(tables.frames.size()) {
  put_varint(lengths_, 0);
}

uint32_t PageTexts::text(std::string text) {
  const auto found = text_ids_.find(text);
  if (found != text_ids_.end()) return found->second;
  const auto id = static_cast<uint32_t>(texts_.size());
  texts_.push_back(explain::fit_name(text, room_bytes_));
  text_ids_.emplace(std::move(text), id);
  return id;
}

uint32_t PageTexts::frame(trace::FrameId id) {
  if (frame_ids_[id] != 0) return frame_ids_[id] - 1;
  explain::Frame source = explain::source_of(tables_, tables_.frames[id]);
  put_varint(functions_, text(std::move(source.function)));
  put_varint(files_, text(std::move(source.file)));
  put_varint(lines_, source.line);
  frame_ids_[id] = ++frame_count_;
  return frame_count_ - 1;
}

uint32_t PageTexts::stack(trace::StackId id) {
  if (id == 0) return 0;
  if (stack_ids_[id] != 0) return stack_ids_[id];
  const auto frames = tables_.stacks[id];
  if (stack_frames_ + frames.size() > kMaxStackFrames) return 0;
  stack_frames_ += frames.size();
  put_varint(lengths_, frames.size());
  for (const trace::FrameId each : frames) put_varint(frames_, frame(each));
  stack_ids_[id] = stack_count_++;
  return stack_ids_[id];
}

std::vector<Block> PageTexts::take_blocks(const std::string& prefix) const {
  std::vector<Block> blocks;
  blocks.push_back(json_block(prefix + "texts", json_texts(texts_)));
  blocks.push_back(
      columns_block(prefix + "stacks", {&functions_, &files_, &lines_, &lengths_, &frames_}));
  return blocks;
}

}  // namespace vram::pages
