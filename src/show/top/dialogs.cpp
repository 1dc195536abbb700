#include "show/top/dialogs.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/live/status_words.hpp"
#include "show/top/fields.hpp"
#include "show/top/frame.hpp"
#include "show/top/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <set>

namespace vram::show::top {
namespace {

struct SignalChoice {
  std::string_view text;
  int signal;
};

// The first choice is the harmless one, for a key that is pressed twice.
constexpr std::array kSignals = {
    SignalChoice{tr_later("cancel: send nothing"), 0},
    SignalChoice{tr_later("15 SIGTERM  asks it to end"), SIGTERM},
    SignalChoice{tr_later(" 2 SIGINT   interrupts it, as Ctrl-C does"), SIGINT},
    SignalChoice{tr_later(" 9 SIGKILL  ends it at once; it can save nothing"), SIGKILL}};
constexpr std::array kTrims = {
    std::string_view(tr_later("cancel: ask no process")),
    std::string_view(
        tr_later("ask: each empties its cache when it posts next, at a step or a region's end"))};
constexpr std::string_view kEverybody = tr_later("everybody");
constexpr std::string_view kUserKey = "user:";

std::string cached_text(const watch::Process& process) {
  std::optional<uint64_t> sum;
  for (const watch::Use& use : process.uses) {
    const auto cached = figure_of(Field::kCached, process, use);
    if (cached) sum = sum.value_or(0) + std::min(*cached, uint64_t{1} << 50);
  }
  return sum ? tr(", cached ") + format_bytes(*sum) : "";
}

Target target_of(const watch::Process& process) {
  const watch::ProcessFacts& facts = *process.facts;
  return {{facts.pid, facts.start_ticks},
          fmt::format("{} {}  {}{}", facts.pid, user_text(facts), command_text(facts),
                      cached_text(process))};
}

bool is_tagged(const watch::Process& process, const TopState& state) {
  const ProcessId id = {process.facts->pid, process.facts->start_ticks};
  return std::ranges::count(state.tagged, id) > 0;
}

std::vector<Target> targets_of(const View& view, const watch::Snapshot& snapshot,
                               const TopState& state) {
  std::vector<Target> targets;
  for (const watch::Process& process : snapshot.processes) {
    if (is_tagged(process, state)) targets.push_back(target_of(process));
  }
  if (!state.tagged.empty() || view.rows.empty()) return targets;
  const Row& row = view.rows[view.selected];
  if (row.process != nullptr) targets.push_back(target_of(*row.process));
  return targets;
}

template <typename Texts>
std::vector<std::string> as_choices(const Texts& texts) {
  return {texts.begin(), texts.end()};
}

void open_about_targets(DialogKind kind, std::vector<Target> targets,
                        std::vector<std::string> choices, TopState& state) {
  const bool any_hidden = std::ranges::any_of(
      targets, [](const Target& target) { return !target.process.start_ticks; });
  if (targets.empty()) {
    state.show_message(tr("select a process that uses a GPU, or tag some with the space bar"),
                       Style::kWarning);
  } else if (any_hidden) {
    state.show_message(
        tr("a process is not to be seen from here (another pid namespace): it can't be named "
           "for certain"),
        Style::kWarning);
  } else {
    state.dialog = {kind, 0, std::move(choices), std::move(targets), ""};
  }
}

void toggle_column(TopState& state) {
  const FieldInfo& info = all_fields()[state.dialog.at];
  if (state.hidden.erase(info.field) == 0) state.hidden.insert(info.field);
}

// The filter's words with another "user:", or with none.
void choose_user(const std::string& user, TopState& state) {
  std::string words;
  std::string_view rest = state.filter_text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (!word.empty() && !word.starts_with(kUserKey))
      words += (words.empty() ? "" : " ") + std::string(word);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  if (user != tr(kEverybody)) words += (words.empty() ? "" : " ") + std::string(kUserKey) + user;
  if (auto filter = Filter::parse(words)) {
    state.filter = *std::move(filter);
    state.filter_text = words;
  }
}

Request about_targets(RequestKind kind, int signal, TopState& state) {
  Request request = {kind, {}, signal};
  for (const Target& target : state.dialog.targets) request.processes.push_back(target.process);
  state.tagged.clear();
  return request;
}

Request choose(TopState& state) {
  const size_t at = state.dialog.at;
  switch (state.dialog.kind) {
    case DialogKind::kSort:
      state.order.sort = all_fields()[at].field;
      return {};
    case DialogKind::kUser:
      choose_user(state.dialog.choices[at], state);
      return {};
    case DialogKind::kSignal:
      return at == 0 ? Request()
                     : about_targets(RequestKind::kSignal, kSignals.at(at).signal, state);
    case DialogKind::kTrim:
      return at == 0 ? Request() : about_targets(RequestKind::kTrim, 0, state);
    default:
      return {};
  }
}

bool takes_text(DialogKind kind) {
  return kind == DialogKind::kFilter || kind == DialogKind::kSearch;
}

// True: the text is taken, the dialog is done.
bool accept_text(const View& view, TopState& state) {
  if (state.dialog.kind == DialogKind::kSearch) {
    state.search = state.dialog.entry;
    select_match(view, view.selected, state);
    return true;
  }
  auto filter = Filter::parse(state.dialog.entry);
  if (!filter) {
    state.show_message(filter.error().message, Style::kBad);
    return false;
  }
  state.filter = *std::move(filter);
  state.filter_text = state.dialog.entry;
  return true;
}

void handle_text(const View& view, const Event& event, TopState& state) {
  edit_entry(event, state.dialog.entry);
  if (event.key == Key::kEscape) state.dialog = {};
  if (event.key == Key::kEnter && accept_text(view, state)) state.dialog = {};
}

void move(Dialog& dialog, const Event& event) {
  const size_t last = dialog.choices.empty() ? 0 : dialog.choices.size() - 1;
  if (event.key == Key::kUp || event.key == Key::kWheelUp)
    dialog.at -= std::min<size_t>(dialog.at, 1);
  if (event.key == Key::kDown || event.key == Key::kWheelDown)
    dialog.at = std::min(dialog.at + 1, last);
  if (event.key == Key::kHome || event.key == Key::kPageUp) dialog.at = 0;
  if (event.key == Key::kEnd || event.key == Key::kPageDown) dialog.at = last;
}

}  // namespace

void open_help(TopState& state) { state.dialog = {DialogKind::kHelp, 0, {}, {}, ""}; }

void open_setup(TopState& state) {
  state.dialog = {DialogKind::kSetup, 0, {}, {}, ""};
  for (const FieldInfo& info : all_fields())
    state.dialog.choices.push_back(fmt::format("{:<10} {}", tr(info.title), tr(info.about)));
}

void open_sort(TopState& state) {
  state.dialog = {DialogKind::kSort, static_cast<size_t>(state.order.sort), {}, {}, ""};
  for (const FieldInfo& info : all_fields())
    state.dialog.choices.push_back(fmt::format("{:<10} {}", tr(info.title), tr(info.about)));
}

void open_user(const watch::Snapshot& snapshot, TopState& state) {
  std::set<std::string> users;
  for (const watch::Process& process : snapshot.processes) {
    if (process.facts->user || process.facts->uid) users.insert(user_text(*process.facts));
  }
  state.dialog = {DialogKind::kUser, 0, {std::string(tr(kEverybody))}, {}, ""};
  state.dialog.choices.insert(state.dialog.choices.end(), users.begin(), users.end());
}

void open_filter(TopState& state) {
  state.dialog = {DialogKind::kFilter, 0, {}, {}, state.filter_text};
}

void open_search(TopState& state) { state.dialog = {DialogKind::kSearch, 0, {}, {}, ""}; }

void open_signal(const View& view, const watch::Snapshot& snapshot, TopState& state) {
  std::vector<std::string> choices;
  for (const SignalChoice& each : kSignals) choices.emplace_back(tr(each.text));
  open_about_targets(DialogKind::kSignal, targets_of(view, snapshot, state), std::move(choices),
                     state);
}

void open_trim(const View& view, const watch::Snapshot& snapshot, TopState& state) {
  open_about_targets(DialogKind::kTrim, targets_of(view, snapshot, state), as_choices(kTrims),
                     state);
}

void select_match(const View& view, size_t from, TopState& state) {
  for (size_t i = 0; !state.search.empty() && i < view.rows.size(); ++i) {
    const size_t at = (from + i) % view.rows.size();
    const Row& row = view.rows[at];
    if (row.process == nullptr || !mentions(*row.process, state.search)) continue;
    state.selected = row.id();
    state.selected_at = at;
    return;
  }
  state.show_message(trf("no row mentions '{}'", state.search), Style::kWarning);
}

Request handle_dialog(TopState& state, const View& view, const Event& event) {
  const DialogKind kind = state.dialog.kind;
  if (takes_text(kind)) {
    handle_text(view, event, state);
    return {};
  }
  move(state.dialog, event);
  const bool is_space = event.key == Key::kText && event.text == " ";
  if (kind == DialogKind::kSetup && (is_space || event.key == Key::kEnter)) {
    toggle_column(state);
    return {};
  }
  Request request;
  const bool is_letter = event.key == Key::kText && !is_space;
  const bool closes =
      event.key == Key::kEscape || event.key == Key::kF10 || is_letter || kind == DialogKind::kHelp;
  if (event.key == Key::kEnter) request = choose(state);
  if (closes || event.key == Key::kEnter) state.dialog = {};
  return request;
}

// How dialogs look.

namespace {

constexpr size_t kMaxTargets = 6;

FramedText help(const TopState& state) {
  FramedText content = {tr("Keys: press any to go back"), {}, {}};
  content.lines.emplace_back(
      tr("arrows, PgUp, PgDn, Home, End, the wheel move; a click selects, on a title sorts"));
  for (const Binding& binding : all_bindings()) {
    if (binding.keys.empty() || (state.is_readonly && changes_something(binding.action))) continue;
    content.lines.push_back(
        Line(fmt::format("{:<8}", binding.keys), Style::kStrong).add(tr(binding.about)));
  }
  return content;
}

std::string title_of(DialogKind kind) {
  switch (kind) {
    case DialogKind::kSetup:
      return tr("Columns: space shows or hides, Esc goes back");
    case DialogKind::kSort:
      return tr("Sort by");
    case DialogKind::kUser:
      return tr("Processes of");
    case DialogKind::kSignal:
      return tr("Send a signal to");
    case DialogKind::kTrim:
      return tr("Ask to give cached memory back");
    default:
      return "";
  }
}

FramedText list(const TopState& state) {
  const Dialog& dialog = state.dialog;
  FramedText content = {title_of(dialog.kind), {}, {}};
  const size_t named = std::min(dialog.targets.size(), kMaxTargets);
  for (size_t i = 0; i < named; ++i)
    content.lines.emplace_back(printable(dialog.targets[i].label), Style::kStrong);
  if (named < dialog.targets.size())
    content.lines.emplace_back(trf("and {} more", dialog.targets.size() - named));
  if (named > 0) content.lines.emplace_back();
  content.at = content.lines.size() + dialog.at;
  for (size_t i = 0; i < dialog.choices.size(); ++i) {
    std::string mark;
    if (dialog.kind == DialogKind::kSetup)
      mark = state.hidden.contains(all_fields()[i].field) ? "[ ] " : "[x] ";
    content.lines.emplace_back(mark + printable(dialog.choices[i]));
  }
  return content;
}

// Over the foot, in the last row but one; where the foot says what is wrong with the text, above
// it.
void draw_typed(const TopState& state, Grid& grid) {
  const Dialog& dialog = state.dialog;
  const std::string_view lead =
      dialog.kind == DialogKind::kFilter ? tr("filter: ") : tr("look for: ");
  draw_entry(grid.size().rows - (state.message.empty() ? 2 : 3), lead, dialog.entry, grid);
}

}  // namespace

void draw_dialog(const TopState& state, Grid& grid) {
  switch (state.dialog.kind) {
    case DialogKind::kNone:
      return;
    case DialogKind::kHelp:
      draw_framed(help(state), grid);
      return;
    case DialogKind::kFilter:
    case DialogKind::kSearch:
      draw_typed(state, grid);
      return;
    default:
      draw_framed(list(state), grid);
  }
}

}  // namespace vram::show::top
