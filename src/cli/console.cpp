#include "cli/console.hpp"

#include "base/environment.hpp"
#include "base/text.hpp"
#include "show/draw/line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>
#include <vector>

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

constexpr std::string_view kHomeAndWipe = "\x1b[H\x1b[2J";
constexpr std::string_view kWipeRestOfLine = "\x1b[K";
constexpr std::string_view kWipeBelow = "\x1b[J";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// At most `columns` of a line, with all its escape codes. A wider one would be wrapped, and take
// more lines of the terminal than are counted here.
std::string cut(std::string_view line, int columns) {
  std::string out;
  int used = 0;
  while (!line.empty()) {
    const bool is_code = line.front() == '\x1b';
    size_t end = is_code ? std::min(line.find('m'), line.size() - 1) + 1 : 1;
    while (!is_code && end < line.size() &&
           (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U)
      ++end;
    const std::string_view piece = line.substr(0, end);
    if (!is_code) used += display_width(piece);
    if (is_code || used <= columns) out += piece;
    line.remove_prefix(end);
  }
  return out;
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

std::string Repaint::next(std::string_view text, int rows, int columns) {
  const bool resized = std::exchange(rows_, rows) != rows;
  const bool reshaped = std::exchange(columns_, columns) != columns || resized;
  std::string out;
  if (lines_ > 0) out = reshaped ? std::string(kHomeAndWipe) : fmt::format("\x1b[{}A\r", lines_);
  const std::vector<std::string_view> lines = lines_of(text);
  const auto room = static_cast<size_t>(std::max(rows - 1, 1));  // the cursor waits in the last
  const size_t shown = lines.size() > room ? room - 1 : lines.size();
  for (size_t i = 0; i < shown; ++i)
    out += fmt::format("{}{}\n", cut(lines[i], columns), kWipeRestOfLine);
  if (shown < lines.size())
    out += fmt::format("({} more lines){}\n", lines.size() - shown, kWipeRestOfLine);
  lines_ = static_cast<int>(std::min(lines.size(), room));
  return out += kWipeBelow;
}

}  // namespace vram::cli
