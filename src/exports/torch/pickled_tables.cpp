#include "exports/torch/pickled_tables.hpp"

#include "base/text.hpp"

namespace vram::exports {
namespace {

using enum trace::torch::Key;

// "relu (call_function torch.relu)" in its parts, as the reader joins them.
struct FxNode {
  std::string_view name;
  std::string_view op;
  std::string_view target;
};

FxNode fx_node_of(std::string_view text) {
  const size_t open = text.find(" (");
  const size_t blank = open == text.npos ? text.npos : text.find(' ', open + 2);
  if (blank == text.npos || text.back() != ')') return {text, "", ""};
  return {text.substr(0, open), text.substr(open + 2, blank - open - 2),
          text.substr(blank + 1, text.size() - blank - 2)};
}

}  // namespace

PickledTables::PickledTables(const trace::Tables& tables, ExportFile& file)
    : tables_(tables), file_(file), out_(file.text()) {
  string_slots_.resize(tables.strings.size());
  frame_slots_.resize(tables.frames.size());
  stack_slots_.resize(tables.stacks.size());
  function_slots_.resize(tables.stacks.size());
}

bool PickledTables::get(uint32_t& slot) {
  if (slot == 0) {
    slot = next_slot_++;
    return false;
  }
  out_.get(slot);
  return true;
}

void PickledTables::keyword(uint32_t keyword) {
  if (has_keyword_[keyword]) return out_.get(keyword);
  has_keyword_[keyword] = true;
  out_.text(trace::torch::keyword_text(keyword));
  out_.put(keyword);
}

void PickledTables::text(trace::StringId id) {
  if (id == 0) return out_.text("");
  uint32_t& slot = string_slots_[id];
  if (get(slot)) return;
  out_.text(valid_utf8(tables_.strings[id]));
  out_.put(slot);
}

void PickledTables::time_items(int64_t time_ns) {
  const int64_t rest = time_ns % 1000;
  keyword(kTimeUs);
  out_.integer(time_ns / 1000);
  if (rest > 0) item(kNanoseconds, static_cast<uint64_t>(rest));
}

void PickledTables::word(std::string_view text) {
  uint32_t& slot = word_slots_[text];
  if (get(slot)) return;
  out_.text(valid_utf8(text));
  out_.put(slot);
}

void PickledTables::frame(trace::FrameId id) {
  uint32_t& slot = frame_slots_[id];
  if (get(slot)) return;
  const trace::Frame& frame = tables_.frames[id];
  out_.empty_dict();
  out_.put(slot);
  out_.mark();
  text_item(kName, frame.function);
  text_item(kFilename, frame.file);
  item(kLine, frame.line);
  if (frame.fx_node != 0) {
    const FxNode node = fx_node_of(tables_.strings[frame.fx_node]);
    for (const auto& [key, part] :
         {std::pair(kFxNodeOp, node.op), std::pair(kFxNodeName, node.name),
          std::pair(kFxNodeTarget, node.target)}) {
      keyword(key);
      out_.text(valid_utf8(part));
    }
  }
  if (frame.fx_trace != 0) text_item(kFxOriginalTrace, frame.fx_trace);
  out_.set_items();
}

void PickledTables::frames(trace::StackId id) {
  if (id == 0) return out_.empty_list();
  uint32_t& slot = stack_slots_[id];
  if (get(slot)) return;
  out_.empty_list();
  out_.put(slot);
  items(tables_.stacks[id], [this](trace::FrameId frame) { this->frame(frame); });
}

void PickledTables::functions(trace::StackId id) {
  uint32_t& slot = function_slots_[id];
  if (get(slot)) return;
  out_.empty_list();
  out_.put(slot);
  items(tables_.stacks[id], [this](trace::FrameId frame) { text(tables_.frames[frame].function); });
}

}  // namespace vram::exports
