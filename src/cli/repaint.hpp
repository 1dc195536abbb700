// Repaint: one screen of text after the other at the same place of a terminal. The cursor goes up
// and writes over what stood there, so nothing flickers, the last screen stays when the program
// ends, and there is nothing to restore. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace vram::cli {

class Repaint {
 public:
  // Returns the output that replaces the previous text by `text`, which consists of whole lines, on
  // a terminal of this size. Too wide lines are truncated; lines that do not fit are counted in the
  // last one. After a resize the screen is cleared, since the position of its lines is unknown.
  [[nodiscard]] std::string next(std::string_view text, int rows, int columns);

 private:
  int lines_ = 0;
  int rows_ = 0;
  int columns_ = 0;
};

}  // namespace vram::cli
