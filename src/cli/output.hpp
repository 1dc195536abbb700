// The output of a command's document: the screen, or the file of -o.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "show/draw/page.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::cli {

// The values of -o and --force.
struct Output {
  std::string path = "";  // empty: the screen
  bool is_forced = false;
  bool can_be_forced = false;
};

// -o, into `target`.
[[nodiscard]] Option output_option(Output& target);
// --force, into `target`. Without it a command replaces only what vram wrote.
[[nodiscard]] Option force_option(Output& target);

// The shape of text for that place: a file gets every glyph and no colour.
[[nodiscard]] show::TextOptions text_options(const Output& output, const Console& console);

// Checks whether the existing file may be replaced, which no file that the command reads may be;
// call it before the work whose result goes there.
[[nodiscard]] Result<> check_output(const Output& output,
                                    const std::vector<std::string>& inputs = {});
// Checks that no two outputs of a command are the same file, of which one would be lost. "": none.
[[nodiscard]] Result<> check_outputs_differ(const std::vector<std::string>& paths);

// Writes to standard output if there is no path. A file appears when it is complete; a text's last
// line marks it as written by vram, so that a later one may replace it.
[[nodiscard]] Result<> deliver(const std::string& text, const Output& output, Console& console);

// The same without that line, for files that other programs read. vram does not take the file for
// its own later.
[[nodiscard]] Result<> deliver_as_it_is(const std::string& text, const Output& output,
                                        Console& console);

// Of find_output_target(), with what --force would do.
[[nodiscard]] Error with_force(Error error);

[[nodiscard]] inline Replace replace_for(bool is_forced) {
  return is_forced ? Replace::kAny : Replace::kOwn;
}

// Progress: a line on standard error during long work, erased at the end. Silent for short work,
// and if standard error is no terminal. Use it from one thread at a time.
class Progress {
 public:
  Progress(const Console& console, std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the line

  // Shows what is being done, if this many events take a while.
  void announce(uint64_t events);
  // Shows the current stage of the work and its completed share, from 0 to 1; immediately if the
  // work was announced or has taken a while.
  void update_stage(std::string_view stage, double share);
  // Bytes done, and how many there are (0: unknown). Cheap enough to call for every block read.
  void update(uint64_t done_bytes, uint64_t total_bytes);
  [[nodiscard]] std::function<void(uint64_t, uint64_t)> callback();
  // As above for counted items: "replays".
  void update_count(uint64_t done, uint64_t total, std::string_view things);

 private:
  using Clock = std::chrono::steady_clock;
  // Whether it is time to draw again.
  [[nodiscard]] bool is_due(Clock::time_point now);

  const Console& console_;
  std::string what_;
  Clock::time_point begin_;
  Clock::time_point next_draw_;
  bool drawn_ = false;
};

}  // namespace vram::cli
