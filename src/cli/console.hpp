// Console: the process's standard output and error, and what they support. The only code that reads
// the environment for this. Use it from one thread at a time.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace vram::cli {

class Console {
 public:
  // Examines the descriptors and NO_COLOR, CLICOLOR_FORCE, COLUMNS, LINES, TERM, LC_ALL, LC_CTYPE,
  // LANG.
  Console();

  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] int rows() const { return rows_; }
  // The width of a screen that is printed once: the terminal's, or COLUMNS and LINES, else the
  // argument.
  [[nodiscard]] int columns_or(int without) const;
  [[nodiscard]] int rows_or(int without) const;
  // Reads the size again: a terminal may have been resized.
  void measure();
  // Whether standard output is a terminal whose cursor can be moved.
  [[nodiscard]] bool can_redraw() const { return can_redraw_; }
  [[nodiscard]] bool colour() const { return colour_; }  // on standard output
  [[nodiscard]] bool bars() const { return bars_; }      // on standard output
  // Glyphs beyond ASCII can be drawn: the locale is UTF-8.
  [[nodiscard]] bool unicode() const { return unicode_; }
  [[nodiscard]] bool shows_progress() const {
    return shows_progress_;
  }  // standard error is a terminal

  // Prints to standard output. A closed pipe (`
  // head`) is no error: further output is dropped.
  [[nodiscard]] Result<> print(std::string_view text);
  [[nodiscard]] bool output_is_closed() const { return reader_left_; }

  // Print "vram: error: MESSAGE" and "vram: warning: MESSAGE" on standard error.
  void error(std::string_view message) const;
  void warning(std::string_view message) const;
  // Shows a progress line on standard error, in place of the previous one; empty text erases it.
  void progress(std::string_view text) const;

 private:
  int columns_ = 100;
  int rows_ = 24;
  bool colour_ = false;
  bool bars_ = false;
  bool can_redraw_ = false;
  bool unicode_ = true;
  bool shows_progress_ = false;
  bool reader_left_ = false;
  std::string codeset_;  // of translated messages, if it is not UTF-8
};

// Repaint: one screen of text after the other at the same place of a terminal. The cursor goes up
// and writes over what stood there, so nothing flickers, the last screen stays when the program
// ends, and there is nothing to restore. Not thread-safe.
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
