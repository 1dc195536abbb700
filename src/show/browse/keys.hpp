// handle(): applies a key or mouse event to the state of `vram report --interactive`. What the
// caller then has to find out (a moment that was typed) is a request. Pure but for the state.
#pragma once

#include "explain/moment/state.hpp"
#include "show/browse/state.hpp"
#include "show/top/frame.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace vram::show::browse {

enum class RequestKind : uint8_t { kNothing, kQuit, kGoTo };

struct Request {
  RequestKind kind = RequestKind::kNothing;
  explain::MomentRequest moment = {};  // of kGoTo: the caller sets BrowseState::event
};

[[nodiscard]] Request handle(BrowseState& state, const Seen& seen, const top::Event& event);

// Moves the range, without changing its length if possible, so that it has the value.
void include_in_range(double value, const Range& whole, Range& range);

// The column of an event; nothing if the timeline shows another part of the recording.
[[nodiscard]] std::optional<int> column_of(const BrowseTimeline& timeline, int64_t event);

// The key bindings: one table for the key handler and the help page. Help, search, filter, the
// choice of an order or group, and the end are on the keys that they have in vram top.
enum class Action : uint8_t {
  kHelp,
  kNextList,
  kSearch,
  kFilter,
  kNextBy,
  kDetail,
  kBack,
  kForward,
  kEventBack,
  kEventForward,
  kStepBack,
  kStepForward,
  kPeak,
  kOom,
  kGoTo,
  kZoomIn,
  kZoomOut,
  kWhole,
  kQuit,
};

struct Binding {
  Action action;
  top::Key key;                 // kText: none but the characters
  std::string_view characters;  // each of them
  std::string_view keys;        // as the help calls them
  std::string_view about;
};

[[nodiscard]] std::span<const Binding> all_bindings();
[[nodiscard]] std::optional<Action> action_of(const top::Event& event);
[[nodiscard]] std::span<const top::BarItem> bar_items();

}  // namespace vram::show::browse
