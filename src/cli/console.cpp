#include "cli/console.hpp"

#include "base/environment.hpp"
#include "base/text.hpp"
#include "show/draw/line.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

namespace vram::cli {
namespace {

constexpr int kColumnsWithoutTerminal = 100;
constexpr int kRowsWithoutTerminal = 24;

// 0 where it does not say.
int number_in(const char* name) {
  const std::string set = environment(name);
  int number = 0;
  std::from_chars(set.data(), set.data() + set.size(), number);
  return std::max(number, 0);
}

// By the variables' text and not by setlocale: a locale that is named but not installed still says
// what the terminal shows.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment(name);
    if (value.empty()) continue;
    std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// 0 by 0 where standard output is no terminal.
winsize terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

void write_to_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string line_of(std::string_view kind, std::string_view message, bool unicode) {
  const std::string line = fmt::format("vram: {}: {}\n", kind, printable(message));
  return unicode ? line : show::to_ascii(line);
}

}  // namespace

Console::Console() {
  const bool dumb = environment("TERM") == "dumb";
  const bool forced =
      !environment("CLICOLOR_FORCE").empty() && environment("CLICOLOR_FORCE") != "0";
  can_redraw_ = isatty(STDOUT_FILENO) == 1 && !dumb;
  const bool terminal = forced || can_redraw_;
  measure();
  bars_ = terminal;
  colour_ = terminal && environment("NO_COLOR").empty();
  unicode_ = locale_is_utf8();
  shows_progress_ = isatty(STDERR_FILENO) == 1 && !dumb;
}

void Console::measure() {
  const winsize size = terminal_size();
  columns_ = number_in("COLUMNS");
  if (columns_ == 0) columns_ = size.ws_col > 0 ? size.ws_col : kColumnsWithoutTerminal;
  rows_ = size.ws_row > 0 ? size.ws_row : kRowsWithoutTerminal;
}

int Console::columns_or(int without) const {
  const bool is_set = number_in("COLUMNS") > 0 || terminal_size().ws_col > 0;
  return is_set ? columns_ : without;
}

int Console::rows_or(int without) const {
  if (const int lines = number_in("LINES"); lines > 0) return lines;
  return terminal_size().ws_row > 0 ? rows_ : without;
}

Result<> Console::print(std::string_view text) {
  while (!text.empty() && !reader_left_) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      reader_left_ = true;
    } else if (errno != EINTR) {
      return fail(Code::kIo, "cannot write to standard output: {}", std::strerror(errno));
    }
  }
  return {};
}

void Console::error(std::string_view message) const {
  write_to_stderr(line_of("error", message, unicode_));
}

void Console::warning(std::string_view message) const {
  write_to_stderr(line_of("warning", message, unicode_));
}

void Console::progress(std::string_view text) const {
  if (!shows_progress_) return;
  const std::string line = "\r\x1b[K" + std::string(text);
  write_to_stderr(unicode_ ? line : show::to_ascii(line));
}

}  // namespace vram::cli
