// PageTexts: the texts and stacks of a page, each once, with numbers of the page's own: only those
// that blocks refer to are in it. Number 0 is the empty text, and no stack. One thread at a time.
#pragma once

#include "pages/block.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace vram::pages {

// The maximum of frames in all stacks of a page; further stacks are left out.
inline constexpr size_t kMaxStackFrames = 4'000'000;

class PageTexts {
 public:
  explicit PageTexts(const trace::Tables& tables);

  [[nodiscard]] uint32_t text(std::string text);
  [[nodiscard]] uint32_t stack(trace::StackId id);

  // "PREFIXtexts": a JSON array. "PREFIXstacks": columns: the frames' functions, files (texts) and
  // lines; the lengths of stacks; their frames, innermost first.
  [[nodiscard]] std::vector<Block> take_blocks(const std::string& prefix) const;

 private:
  [[nodiscard]] uint32_t frame(trace::FrameId id);

  const trace::Tables& tables_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint32_t> text_ids_;
  uint64_t room_bytes_;
  std::vector<uint32_t> stack_ids_;  // by StackId
  std::vector<uint32_t> frame_ids_;  // by FrameId, plus 1
  uint32_t stack_count_ = 1;
  uint32_t frame_count_ = 0;
  size_t stack_frames_ = 0;
  Column functions_;
  Column files_;
  Column lines_;
  Column lengths_;
  Column frames_;
};

}  // namespace vram::pages
