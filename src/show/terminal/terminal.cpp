#include "show/terminal/terminal.hpp"

#include "base/environment.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cwchar>
#include <optional>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <utility>

#define NCURSES_NOMACROS  // its macros have names such as move and timeout
#include <curses.h>

namespace vram::show {
namespace {

using top::Cell;
using top::Event;
using top::Grid;
using top::Key;
using top::Size;

constexpr int kEscapeMs = 25;  // how long an Escape may be the start of a key's sequence
constexpr int kMaxEvents = 1'000;
constexpr const char* kMouseOff = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l";

struct Appearance {
  Style style;
  short colour;  // of the terminal's theme; -1: its own
  attr_t attributes;
};

constexpr short kBrightBlue = 12;

const std::array kAppearances = {Appearance{Style::kPlain, -1, A_NORMAL},
                                 Appearance{Style::kStrong, -1, A_BOLD},
                                 Appearance{Style::kFaint, -1, A_DIM},
                                 Appearance{Style::kHeading, -1, A_BOLD},
                                 Appearance{Style::kActive, COLOR_CYAN, A_NORMAL},
                                 Appearance{Style::kReserved, kBrightBlue, A_NORMAL},
                                 Appearance{Style::kGood, COLOR_GREEN, A_NORMAL},
                                 Appearance{Style::kWarning, COLOR_YELLOW, A_NORMAL},
                                 Appearance{Style::kBad, COLOR_RED, A_BOLD}};

struct KeyCode {
  int code;
  Key key;
};

constexpr std::array kKeyCodes = {
    KeyCode{KEY_UP, Key::kUp},        KeyCode{KEY_DOWN, Key::kDown},
    KeyCode{KEY_LEFT, Key::kLeft},    KeyCode{KEY_RIGHT, Key::kRight},
    KeyCode{KEY_PPAGE, Key::kPageUp}, KeyCode{KEY_NPAGE, Key::kPageDown},
    KeyCode{KEY_HOME, Key::kHome},    KeyCode{KEY_END, Key::kEnd},
    KeyCode{KEY_ENTER, Key::kEnter},  KeyCode{KEY_BACKSPACE, Key::kBackspace},
    KeyCode{KEY_F(1), Key::kF1},      KeyCode{KEY_F(2), Key::kF2},
    KeyCode{KEY_F(3), Key::kF3},      KeyCode{KEY_F(4), Key::kF4},
    KeyCode{KEY_F(5), Key::kF5},      KeyCode{KEY_F(6), Key::kF6},
    KeyCode{KEY_F(7), Key::kF7},      KeyCode{KEY_F(8), Key::kF8},
    KeyCode{KEY_F(9), Key::kF9},      KeyCode{KEY_F(10), Key::kF10}};

bool decodes_utf8() {
  wchar_t letter = 0;
  return std::mbtowc(&letter, "\xE2\x96\x88", 3) == 3 && letter == L'\u2588';
}

// The locale of the environment, else one for the same characters that every system has.
bool is_utf8_possible() {
  if (std::setlocale(LC_CTYPE, "") != nullptr && decodes_utf8()) return true;
  return std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr && decodes_utf8();
}

// Whether the locale of the environment has another codeset with wide characters, such as GB18030.
bool is_other_codeset() {
  return std::setlocale(LC_CTYPE, "") != nullptr && MB_CUR_MAX > 1 && !decodes_utf8();
}

std::string capability(const char* name) {
  const char* const text = tigetstr(name);
  return text == nullptr || text == reinterpret_cast<const char*>(-1) ? "" : text;
}

std::string environment_term() { return printable(environment("TERM")); }

std::optional<Event> mouse_event() {
  MEVENT mouse{};
  if (getmouse(&mouse) != OK) return std::nullopt;
  const top::Place place = {mouse.x, mouse.y};
  if ((mouse.bstate & BUTTON4_PRESSED) != 0U) return Event{Key::kWheelUp, "", place};
  if ((mouse.bstate & BUTTON5_PRESSED) != 0U) return Event{Key::kWheelDown, "", place};
  const auto click = static_cast<mmask_t>(BUTTON1_PRESSED | BUTTON1_CLICKED);
  if ((mouse.bstate & click) != 0U) return Event{Key::kClick, "", place};
  return std::nullopt;
}

std::optional<Event> key_event(int code) {
  if (code == KEY_MOUSE) return mouse_event();
  for (const KeyCode& each : kKeyCodes) {
    if (each.code == code) return Event{each.key, "", {}};
  }
  return std::nullopt;
}

std::optional<Event> character_event(wint_t character) {
  if (character == L'\n' || character == L'\r') return Event{Key::kEnter, "", {}};
  if (character == L'\t') return Event{Key::kTab, "", {}};
  if (character == 27) return Event{Key::kEscape, "", {}};
  if (character == 8 || character == 127) return Event{Key::kBackspace, "", {}};
  std::string text = utf8_of(character);
  if (text != printable(text)) return std::nullopt;  // a control key that means nothing here
  return Event{Key::kText, std::move(text), {}};
}

std::string_view glyph_of(const Cell& cell) { return cell.utf8.data(); }

// As SIGTSTP does by default. Unlike SIGSTOP, the kernel discards it if the process has no shell
// that could continue it (docker run, ssh HOST vram top).
void stop_until_continued() {
  struct sigaction before{};
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  sigset_t stop{};
  sigset_t mask{};
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  (void)sigaction(SIGTSTP, &usual, &before);
  (void)raise(SIGTSTP);
  (void)pthread_sigmask(SIG_UNBLOCK, &stop, &mask);
  (void)pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  (void)sigaction(SIGTSTP, &before, nullptr);
}

}  // namespace

struct Terminal::State {
  SCREEN* screen = nullptr;
  bool unicode = true;
  bool has_codeset = false;  // other than UTF-8, and with wide characters
  bool colour = false;
  bool is_given_back = false;
  std::optional<Grid> shown;
  std::string run;  // kept for its memory
  std::wstring wide_run;

  void set_up(const TerminalOptions& options);
  void set_colours();
  [[nodiscard]] attr_t attributes_of(const Cell& cell) const;
  void show_row(const Grid& grid, int row);
  int show_run(const Grid& grid, top::Place place);
  void add_wide(const Cell& cell);
  [[nodiscard]] bool is_shown(const Grid& grid, top::Place place) const {
    return shown && shown->at(place) == grid.at(place);
  }
};

void Terminal::State::set_colours() {
  colour = has_colors() && start_color() == OK && use_default_colors() == OK;
  for (size_t i = 0; colour && i < kAppearances.size(); ++i) {
    short number = kAppearances.at(i).colour;
    if (number >= COLORS) number = COLOR_BLUE;
    init_pair(static_cast<short>(i + 1), number, -1);
  }
}

void Terminal::State::set_up(const TerminalOptions& options) {
  set_term(screen);
  cbreak();
  noecho();
  nonl();
  intrflush(stdscr, FALSE);
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  curs_set(0);
  if (options.colour) set_colours();
  std::string farewell = options.mouse ? kMouseOff : "";
  if (options.mouse) {
    mouseinterval(0);
    mousemask(
        static_cast<mmask_t>(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED),
        nullptr);
  }
  for (const char* name : {"sgr0", "rmkx", "cnorm", "rmcup"}) farewell += capability(name);
  guard_terminal(farewell + "\r\n");
}

Terminal::Terminal(std::unique_ptr<State> state) : state_(std::move(state)) {}
Terminal::Terminal(Terminal&& other) noexcept = default;

Result<Terminal> Terminal::open(TerminalOptions options) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
    return fail(Code::kUnsupported, "standard input and output are not a terminal; {}",
                options.instead);
  auto state = std::make_unique<State>();
  state->has_codeset = !options.unicode && is_other_codeset();
  state->unicode = !state->has_codeset && is_utf8_possible() && options.unicode;
  remember_terminal_modes();
  set_escdelay(kEscapeMs);
  state->screen = newterm(nullptr, stdout, stdin);
  if (state->screen == nullptr || capability("cup").empty()) {
    if (state->screen != nullptr) endwin();
    return fail(
        Code::kUnsupported,
        "the terminal is of the kind TERM='{}', and there is no description of it that "
        "can place text: set TERM to what it is (TERM=xterm-256color fits most), or install "
        "descriptions (package ncurses-term); {}",
        environment_term(), options.instead);
  }
  state->set_up(options);
  return Terminal(std::move(state));
}

Terminal::~Terminal() {
  if (state_ == nullptr) return;
  restore();
  delscreen(state_->screen);
}

void Terminal::restore() {
  if (std::exchange(state_->is_given_back, true)) return;
  endwin();
  unguard_terminal();
}

Size Terminal::size() const { return {getmaxx(stdscr), getmaxy(stdscr)}; }

bool Terminal::unicode() const { return state_->unicode; }

attr_t Terminal::State::attributes_of(const Cell& cell) const {
  if (cell.is_inverted) return A_REVERSE;  // a bar in one piece
  attr_t attributes = A_NORMAL;
  for (size_t i = 0; i < kAppearances.size(); ++i) {
    const Appearance& appearance = kAppearances.at(i);
    if (appearance.style != cell.style) continue;
    attributes |= appearance.attributes;
    if (colour && appearance.colour >= 0)
      attributes |= static_cast<attr_t>(COLOR_PAIR(static_cast<int>(i) + 1));
  }
  return attributes;
}

// As the codeset of the terminal has it; what it lacks takes as many columns.
void Terminal::State::add_wide(const Cell& cell) {
  const std::string_view glyph = glyph_of(cell);
  const auto character = static_cast<wchar_t>(glyph.empty() ? U' ' : first_code_point(glyph));
  std::array<char, MB_LEN_MAX> bytes{};
  std::mbstate_t state{};
  const bool is_shown_there =
      character < 0x80 ||
      (has_codeset && wcwidth(character) == cell.columns &&
       std::wcrtomb(bytes.data(), character, &state) != static_cast<size_t>(-1));
  if (is_shown_there)
    wide_run += character;
  else
    wide_run.append(cell.columns, L'?');
}

// Neighbours that changed and look alike go together. The column behind them.
int Terminal::State::show_run(const Grid& grid, top::Place place) {
  const Cell& first = grid.at(place);
  run.clear();
  wide_run.clear();
  int end = place.column;
  for (; end < grid.size().columns; ++end) {
    const top::Place at = {end, place.row};
    const Cell& cell = grid.at(at);
    if (cell.style != first.style || cell.is_inverted != first.is_inverted) break;
    if (cell.columns > 0 && is_shown(grid, at)) break;
    if (unicode)
      run += glyph_of(cell);
    else if (cell.columns > 0)
      add_wide(cell);
  }
  attrset(static_cast<int>(attributes_of(first)));
  if (unicode)
    mvaddnstr(place.row, place.column, run.data(), static_cast<int>(run.size()));
  else
    mvaddnwstr(place.row, place.column, wide_run.data(), static_cast<int>(wide_run.size()));
  return end;
}

void Terminal::State::show_row(const Grid& grid, int row) {
  for (int column = 0; column < grid.size().columns;) {
    const top::Place place = {column, row};
    const bool stays = grid.at(place).columns == 0 || is_shown(grid, place);
    column = stays ? column + 1 : show_run(grid, place);
  }
}

void Terminal::show(const Grid& grid) {
  if (!state_->shown || state_->shown->size() != grid.size()) {
    state_->shown.reset();
    clear();
  }
  for (int row = 0; row < grid.size().rows; ++row) state_->show_row(grid, row);
  refresh();
  state_->shown = grid;
}

std::vector<Event> Terminal::events() {
  std::vector<Event> events;
  for (int i = 0; i < kMaxEvents; ++i) {
    wint_t character = 0;
    const int kind = get_wch(&character);
    if (kind == ERR) break;
    auto event =
        kind == KEY_CODE_YES ? key_event(static_cast<int>(character)) : character_event(character);
    if (event) events.push_back(*std::move(event));
  }
  return events;
}

void Terminal::resize() {
  winsize now{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_row > 0 && now.ws_col > 0)
    resizeterm(now.ws_row, now.ws_col);
  state_->shown.reset();
}

void Terminal::suspend() {
  endwin();
  stop_until_continued();
  state_->shown.reset();
  resize();
}

namespace {

constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
// They end the program where nothing waits for them, as while a recording is read. ncurses handles
// SIGINT and SIGTERM.
constexpr std::array kEndings = {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

// For a signal's handler: plain memory that is there before it runs.
std::array<char, 512> farewell_text;
size_t farewell_length = 0;
termios modes_before;
bool has_modes = false;

extern "C" void give_back(int signal) {
  (void)!write(STDOUT_FILENO, farewell_text.data(), farewell_length);
  if (has_modes) (void)tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
  std::signal(signal, SIG_DFL);
  (void)raise(signal);
}

// Another action stays: nohup ignores SIGHUP.
void replace_action(int signal, void (*expected)(int), void (*action)(int)) {
  struct sigaction now{};
  if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == expected)
    std::signal(signal, action);
}

}  // namespace

void remember_terminal_modes() { has_modes = tcgetattr(STDIN_FILENO, &modes_before) == 0; }

void guard_terminal(const std::string& farewell) {
  farewell_length = std::min(farewell.size(), farewell_text.size());
  std::copy_n(farewell.begin(), farewell_length, farewell_text.begin());
  for (const int fault : kFaults) std::signal(fault, give_back);
  for (const int ending : kEndings) replace_action(ending, SIG_DFL, give_back);
}

void unguard_terminal() {
  for (const int fault : kFaults) std::signal(fault, SIG_DFL);
  for (const int ending : kEndings) replace_action(ending, give_back, SIG_DFL);
}

}  // namespace vram::show
