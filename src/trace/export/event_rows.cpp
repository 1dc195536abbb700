#include "trace/export/event_rows.hpp"

namespace vram::trace {

std::string frame_text(const Tables& tables, FrameId id) {
  const Frame& frame = tables.frames[id];
  std::string text(tables.strings[frame.file]);
  if (text.empty()) text = "?";
  if (frame.line != 0) {
    text += ':';
    append_number(text, frame.line);
  }
  const std::string_view function = tables.strings[frame.function];
  if (!function.empty()) {
    text += ' ';
    text += function;
  }
  return text;
}

}  // namespace vram::trace
