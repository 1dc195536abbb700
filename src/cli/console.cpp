#include "cli/console.hpp"

#include "base/environment.hpp"
#include "base/language.hpp"
#include "base/system_text.hpp"
#include "base/text.hpp"
#include "show/draw/line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iconv.h>
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

// What the terminal shows: "utf-8" of zh_CN.UTF-8. By the variables' text and not by setlocale,
// since a locale that is named need not be installed.
std::string codeset_of_environment() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = environment(name);
  const std::string lower = ascii_lower(locale);
  const size_t dot = lower.find('.');
  if (dot == std::string::npos) return lower == "utf-8" ? lower : "";
  return lower.substr(dot + 1, lower.find('@') - dot - 1);
}

bool is_utf8(std::string_view codeset) { return codeset == "utf-8" || codeset == "utf8"; }

// The text in a codeset other than UTF-8, such as GB18030; as it is if the C library lacks that
// one.
std::string encoded(std::string_view text, const std::string& codeset) {
  iconv_t const converter = iconv_open((codeset + "//TRANSLIT").c_str(), "UTF-8");
  if (converter == reinterpret_cast<iconv_t>(-1)) return std::string(text);
  std::string source(text);
  std::string out(4 * source.size() + 16, '\0');
  char* from = source.data();
  char* to = out.data();
  size_t left = source.size();
  size_t room = out.size();
  const bool is_done = iconv(converter, &from, &left, &to, &room) != static_cast<size_t>(-1);
  iconv_close(converter);
  out.resize(out.size() - room);
  return is_done ? out : std::string(text);
}

// 0 by 0 where standard output is no terminal.
winsize terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

void write_to_stderr(std::string_view text, const std::string& codeset) {
  const std::string out = codeset.empty() ? std::string(text) : encoded(text, codeset);
  std::fwrite(out.data(), 1, out.size(), stderr);
}

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
  const std::string codeset = codeset_of_environment();
  // Terminals show UTF-8 today, also if the locale names no codeset (LANG=zh_CN).
  unicode_ = is_utf8(codeset) || (is_translated() && codeset.empty());
  if (is_translated() && !unicode_) codeset_ = codeset;
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
  const std::string in_codeset = codeset_.empty() ? "" : encoded(text, codeset_);
  if (!codeset_.empty()) text = in_codeset;
  while (!text.empty() && !reader_left_) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      reader_left_ = true;
    } else if (errno != EINTR) {
      return fail(Code::kIo, "cannot write to standard output: {}", system_text(errno));
    }
  }
  return {};
}

void Console::error(std::string_view message) const {
  write_to_stderr(line_of(tr("error"), message, unicode_), codeset_);
}

void Console::warning(std::string_view message) const {
  write_to_stderr(line_of(tr("warning"), message, unicode_), codeset_);
}

void Console::progress(std::string_view text) const {
  if (!shows_progress_) return;
  const std::string line = "\r\x1b[K" + std::string(text);
  write_to_stderr(unicode_ ? line : show::to_ascii(line), codeset_);
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
    out += trf("({} more lines){}\n", lines.size() - shown, kWipeRestOfLine);
  lines_ = static_cast<int>(std::min(lines.size(), room));
  return out += kWipeBelow;
}

}  // namespace vram::cli
