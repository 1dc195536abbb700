// Console: the process's standard output and error, and what can be shown there. The only place
// that asks the environment. One thread at a time.
#pragma once

#include "base/result.hpp"

#include <string_view>

namespace vram::cli {

class Console {
 public:
  // Looks at the descriptors and at NO_COLOR, CLICOLOR_FORCE, COLUMNS, LINES, TERM, LC_ALL,
  // LC_CTYPE, LANG.
  Console();

  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] int rows() const { return rows_; }
  // Of a screen that is printed once: the terminal's, or COLUMNS and LINES, else what is given.
  [[nodiscard]] int columns_or(int without) const;
  [[nodiscard]] int rows_or(int without) const;
  // Looks at the size again: a terminal may have been resized.
  void measure();
  // Standard output is a terminal on which the cursor can go back.
  [[nodiscard]] bool can_redraw() const { return can_redraw_; }
  [[nodiscard]] bool colour() const { return colour_; }    // on standard output
  [[nodiscard]] bool bars() const { return bars_; }        // on standard output
  [[nodiscard]] bool unicode() const { return unicode_; }  // the locale is UTF-8
  [[nodiscard]] bool shows_progress() const {
    return shows_progress_;
  }  // standard error is a terminal

  // To standard output. A reader that went away (`| head`) is no error: what follows is dropped.
  [[nodiscard]] Result<> print(std::string_view text);
  [[nodiscard]] bool output_is_closed() const { return reader_left_; }

  // "vram: error: MESSAGE", "vram: warning: MESSAGE" on standard error.
  void error(std::string_view message) const;
  void warning(std::string_view message) const;
  // A line of progress on standard error, drawn over the one before; empty text wipes it.
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
};

}  // namespace vram::cli
