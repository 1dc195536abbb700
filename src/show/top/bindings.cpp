#include "show/top/bindings.hpp"

#include <algorithm>
#include <array>

namespace vram::show::top {
namespace {

constexpr std::array kBindings = {
    Binding{Action::kHelp, Key::kF1, "h?", "F1 h ?", "this page"},
    Binding{Action::kSetup, Key::kF2, "", "F2", "which columns are shown"},
    Binding{Action::kSearch, Key::kF3, "/", "F3 /", "look for a text; F3 again: the next one"},
    Binding{Action::kFilter, Key::kF4, "\\", "F4 \\",
            "show only some: user:ann gpu:0,1 mem>1G !text"},
    Binding{Action::kTree, Key::kF5, "t", "F5 t",
            "tree of parents and children (Left, Right fold)"},
    Binding{Action::kSort, Key::kF6, "", "F6", "choose what to sort by"},
    Binding{Action::kNextSort, Key::kText, ">", "> <", "sort by the next, the previous column"},
    Binding{Action::kPreviousSort, Key::kText, "<", "", ""},
    Binding{Action::kSortMemory, Key::kText, "M", "M P T N",
            "sort by memory, busy, step time, pid"},
    Binding{Action::kSortBusy, Key::kText, "P", "", ""},
    Binding{Action::kSortTime, Key::kText, "T", "", ""},
    Binding{Action::kSortPid, Key::kText, "N", "", ""},
    Binding{Action::kInvert, Key::kText, "I", "I", "the other way round"},
    Binding{Action::kSignal, Key::kF9, "k", "F9 k", "send a signal to what is tagged or selected"},
    Binding{Action::kTrim, Key::kF8, "a", "F8 a", "ask it to give cached memory back"},
    Binding{Action::kUser, Key::kText, "u", "u", "one user's processes"},
    Binding{Action::kDevice, Key::kText, "g", "g", "the next GPU alone; after the last all"},
    Binding{Action::kAllocators, Key::kF7, "v", "F7 v",
            "what allocators have, and a cleaning would give"},
    Binding{Action::kPlot, Key::kText, "o", "o", "other plots: power and temperature, none"},
    Binding{Action::kTag, Key::kText, " ", "Space", "tag a process, for F8 and F9"},
    Binding{Action::kUntag, Key::kText, "U", "U", "untag all"},
    Binding{Action::kPause, Key::kText, "p", "p", "hold the picture still"},
    Binding{Action::kLonger, Key::kText, "+", "+ -", "sample less often, more often"},
    Binding{Action::kShorter, Key::kText, "-", "", ""},
    Binding{Action::kSampleNow, Key::kText, "r", "r", "sample now"},
    Binding{Action::kRelease, Key::kText, "w", "w", "release the drivers for 30 s (as SIGUSR1)"},
    Binding{Action::kQuit, Key::kF10, "q", "F10 q", "end"},
};

struct BarWord {
  std::string_view key;
  std::string_view word;
  Key means;
  bool changes;
};

constexpr std::array kBar = {
    BarWord{"F1", "Help  ", Key::kF1, false}, BarWord{"F2", "Setup ", Key::kF2, false},
    BarWord{"F3", "Search", Key::kF3, false}, BarWord{"F4", "Filter", Key::kF4, false},
    BarWord{"F5", "Tree  ", Key::kF5, false}, BarWord{"F6", "Sort  ", Key::kF6, false},
    BarWord{"F7", "Alloc ", Key::kF7, false}, BarWord{"F8", "Trim  ", Key::kF8, true},
    BarWord{"F9", "Kill  ", Key::kF9, true},  BarWord{"F10", "Quit", Key::kF10, false}};

}  // namespace

std::span<const Binding> all_bindings() { return kBindings; }

std::optional<Action> action_of(const Event& event) {
  const auto* const found = std::ranges::find_if(kBindings, [&](const Binding& binding) {
    if (event.key == Key::kText)
      return event.text.size() == 1 &&
             binding.characters.find(event.text) != std::string_view::npos;
    return event.key == binding.key;
  });
  return found == kBindings.end() ? std::nullopt : std::optional(found->action);
}

bool changes_something(Action action) {
  return action == Action::kSignal || action == Action::kTrim;
}

std::vector<BarItem> bar_items(bool is_readonly) {
  std::vector<BarItem> items;
  int column = 0;
  for (const BarWord& each : kBar) {
    if (is_readonly && each.changes) continue;
    items.push_back({column, each.key, each.word, each.means});
    column += static_cast<int>(each.key.size() + each.word.size());
  }
  return items;
}

}  // namespace vram::show::top
