// Terminal: the one that standard input and output are, by ncurses: a Grid onto the screen, keys
// and the mouse as events. It goes back to what it was on every way out: by the destructor, and
// where the program dies of a fault of its own by that signal's handler.
//
// At most one at a time, on one thread. Waits for nothing but a terminal that takes no output.
#pragma once

#include "base/result.hpp"
#include "show/top/grid.hpp"
#include "show/top/state.hpp"

#include <memory>
#include <vector>

namespace vram::show {

struct TerminalOptions {
  bool unicode = true;
  bool colour = true;
  bool mouse = true;
};

class Terminal {
 public:
  // kUnsupported: not a terminal, or one that nothing is known about; the message says what to do.
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
  // Asks for the size again.
  void resize();
  // Gives the terminal back and stops the program, as Ctrl-Z does; returns when it goes on.
  void suspend();
  // Gives it back for good.
  void restore();

 private:
  struct State;
  explicit Terminal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vram::show
