// The tables of keys: for the key handler, the help page and the bar at the bottom.
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/browse/keys.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace vram::show::browse {
namespace {

using top::Event;
using top::Key;

constexpr std::array kBrowseBindings = {
    Binding{Action::kHelp, Key::kF1, "h?", "F1 h ?", tr_later("this page")},
    Binding{Action::kNextList, Key::kF2, "", "F2 Tab", tr_later("the findings, or the holders")},
    Binding{Action::kNextList, Key::kTab, "", "", ""},
    Binding{Action::kSearch, Key::kF3, "/", "F3 /",
            tr_later("look for a text; F3 again: the next one")},
    Binding{Action::kFilter, Key::kF4, "\\", "F4 \\",
            tr_later("show only rows that mention a text")},
    Binding{Action::kNextBy, Key::kF6, "b", "F6 b",
            tr_later("group holders by the next: category, scope, size, stream, …")},
    Binding{Action::kDetail, Key::kEnter, "", "Enter",
            tr_later("the stack of a holder; the moment of a finding")},
    Binding{Action::kBack, Key::kLeft, "", tr_later("Left, Right"),
            tr_later("the moment before, after; timelines move on at their edge")},
    Binding{Action::kForward, Key::kRight, "", "", ""},
    Binding{Action::kEventBack, Key::kText, "[", "[ ]", tr_later("one event back, ahead")},
    Binding{Action::kEventForward, Key::kText, "]", "", ""},
    Binding{Action::kStepBack, Key::kText, "<", "< >",
            tr_later("the peak of the step before, after")},
    Binding{Action::kStepForward, Key::kText, ">", "", ""},
    Binding{Action::kPeak, Key::kF7, "p", "F7 p", tr_later("the peak")},
    Binding{Action::kOom, Key::kF8, "o", "F8 o", tr_later("the next request that failed")},
    Binding{Action::kGoTo, Key::kF5, "g", "F5 g",
            tr_later("go to a moment: 1.5s, step:12, event:1234, peak, oom")},
    Binding{Action::kZoomIn, Key::kText, "+", "+ - 0",
            tr_later("zoom in, out; the whole recording")},
    Binding{Action::kZoomOut, Key::kText, "-", "", ""},
    Binding{Action::kWhole, Key::kText, "0", "", ""},
    Binding{Action::kQuit, Key::kF10, "q", "F10 q", tr_later("end")},
};

struct BarWord {
  std::string_view key;
  std::string_view word;
  Key means;
};

constexpr std::array kBrowseBar = {
    BarWord{"F1", tr_later("Help  "), Key::kF1}, BarWord{"F2", tr_later("Findings"), Key::kF2},
    BarWord{"F3", tr_later("Search"), Key::kF3}, BarWord{"F4", tr_later("Filter"), Key::kF4},
    BarWord{"F5", tr_later("Go to "), Key::kF5}, BarWord{"F6", tr_later("Group "), Key::kF6},
    BarWord{"F7", tr_later("Peak  "), Key::kF7}, BarWord{"F8", tr_later("OOM   "), Key::kF8},
    BarWord{"F10", tr_later("Quit"), Key::kF10}};

}  // namespace

std::span<const Binding> all_bindings() {
  static const std::vector<Binding> kNamed = [] {
    std::vector<Binding> named;
    for (const Binding& each : kBrowseBindings)
      if (!each.keys.empty()) named.push_back(each);
    return named;
  }();
  return kNamed;
}

std::optional<Action> action_of(const Event& event) {
  const auto* const found = std::ranges::find_if(kBrowseBindings, [&](const Binding& binding) {
    if (event.key == Key::kText)
      return event.text.size() == 1 &&
             binding.characters.find(event.text) != std::string_view::npos;
    return event.key == binding.key;
  });
  return found == kBrowseBindings.end() ? std::nullopt : std::optional(found->action);
}

std::span<const top::BarItem> bar_items() {
  static const std::vector<top::BarItem> kItems = [] {
    std::vector<top::BarItem> items;
    int column = 0;
    for (const BarWord& each : kBrowseBar) {
      items.push_back({column, each.key, tr(each.word), each.means});
      column += static_cast<int>(each.key.size()) + display_width(tr(each.word));
    }
    return items;
  }();
  return kItems;
}

}  // namespace vram::show::browse
