// Repaint: one screen of text after the other at the same place of a terminal. The cursor goes up
// and writes over what stood there, so nothing flickers, the last screen stays when the program
// ends, and there is nothing to restore. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace vram::cli {

class Repaint {
 public:
  // What to write so that `text`, of whole lines, replaces the text before it on a terminal of this
  // size. Lines that are too wide are cut, those that do not fit counted in the last one; after a
  // resize the screen is wiped, since nobody knows where its lines have gone.
  [[nodiscard]] std::string next(std::string_view text, int rows, int columns);

 private:
  int lines_ = 0;
  int rows_ = 0;
  int columns_ = 0;
};

}  // namespace vram::cli
