// Terminal: the terminal on standard input and output, using ncurses: draws a Grid, and returns
// keys and mouse actions as events. It is always restored: by the destructor, and in a crash by the
// signal handler.
//
// At most one at a time, on one thread. Blocks only on a terminal that accepts no output.
#pragma once

#include "base/result.hpp"
#include "show/top/grid.hpp"
#include "show/top/state.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vram::show {

struct TerminalOptions {
  bool unicode = true;
  bool colour = true;
  bool mouse = true;
  std::string instead;  // of errors: what works without a terminal
};

class Terminal {
 public:
  // kUnsupported: not a terminal, or an unknown one; the message says what to do.
  [[nodiscard]] static Result<Terminal> open(TerminalOptions options);
  Terminal(Terminal&& other) noexcept;
  Terminal& operator=(Terminal&&) = delete;
  ~Terminal();

  [[nodiscard]] top::Size size() const;
  // False: draw in ASCII.
  [[nodiscard]] bool unicode() const;

  // What changed since the last one.
  void show(const top::Grid& grid);
  // Those that wait to be read.
  [[nodiscard]] std::vector<top::Event> events();
  // Reads the size again.
  void resize();
  // Restores the terminal and stops the program, as Ctrl-Z does; returns when it continues. Returns
  // at once if there is no shell that could continue it.
  void suspend();
  // Restores the terminal finally.
  void restore();

 private:
  struct State;
  explicit Terminal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Restores the terminal even if a signal ends the program (a crash, SIGHUP or SIGQUIT while a
// recording is read): the output and modes are prepared in advance, so that the signal handler only
// applies them.

// Stores the current modes of standard input. Call it before they are changed.
void remember_terminal_modes();
// From now on, such a signal writes `farewell` and restores the modes; then it has its usual
// effect.
void guard_terminal(const std::string& farewell);
void unguard_terminal();

}  // namespace vram::show
