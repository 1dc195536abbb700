// TopState: the state of vram top besides the machine: selection, sort order, filter, hidden
// columns, dialog. Changed only by handle() (keys.hpp), drawn by draw() (screen.hpp). Plain values.
#pragma once

#include "base/time.hpp"
#include "show/top/fields.hpp"
#include "show/top/grid.hpp"
#include "show/top/rows.hpp"
#include "watch/sampler.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vram::show::top {

enum class PlotKind : uint8_t { kMemory, kPower, kNone };

enum class DialogKind : uint8_t {
  kNone,
  kHelp,
  kSetup,  // which columns
  kSort,
  kUser,
  kSignal,
  kTrim,
  kFilter,  // a line of text
  kSearch,
};

// The target of a dialog: fixed when it opens, so that no later process replaces it.
struct Target {
  ProcessId process;
  std::string label;
};

struct Dialog {
  DialogKind kind = DialogKind::kNone;
  size_t at = 0;                     // of the choices
  std::vector<std::string> choices;  // a line each
  std::vector<Target> targets;
  std::string entry;
};

inline constexpr std::array<uint64_t, 12> kPeriodsMs = {
    100, 200, 500, 1'000, 2'000, 5'000, 10'000, 30'000, 60'000, 300'000, 900'000, 3'600'000};

struct TopState {
  RowOrder order;
  bool shows_allocators = false;  // the view of what could be released
  PlotKind plot = PlotKind::kMemory;
  std::optional<uint32_t> device;  // alone; else all
  std::set<Field> hidden;

  std::string filter_text;
  Filter filter;
  std::string search;

  std::optional<RowId> selected;
  size_t selected_at = 0;  // its index: if the process ends, this row is selected
  size_t first = 0;        // of the rows on the screen
  std::vector<ProcessId> tagged;

  Dialog dialog;
  std::string message;  // until the next key
  Style message_style = Style::kPlain;

  uint64_t period_ns = kSecondNs;
  bool is_paused = false;
  bool is_readonly = false;

  void show_message(std::string text, Style style = Style::kPlain) {
    message = std::move(text);
    message_style = style;
  }
};

enum class Key : uint8_t {
  kText,  // a character
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kTab,
  kBackspace,
  kF1,
  kF2,
  kF3,
  kF4,
  kF5,
  kF6,
  kF7,
  kF8,
  kF9,
  kF10,
  kClick,
  kWheelUp,
  kWheelDown,
};

struct Event {
  Key key = Key::kText;
  std::string text;  // of kText: one glyph
  Place place;       // of the mouse
};

// Requests to the caller.
enum class RequestKind : uint8_t {
  kNothing,
  kQuit,
  kSampleNow,
  kSetPeriod,
  kPause,
  kSignal,
  kTrim,
  kRelease
};

struct Request {
  RequestKind kind = RequestKind::kNothing;
  std::vector<ProcessId> processes;  // to signal, or to ask for memory
  int signal = 0;
};

// History: the last samples of each device, as many as a screen can plot. Bounded; use it from one
// thread at a time.

// Shares of the maximum; unknown: no point.
struct HistoryPoint {
  uint64_t time_ns = 0;  // monotonic
  std::optional<float> memory;
  std::optional<float> busy;
  std::optional<float> power;
  std::optional<float> heat;  // of 100 C
};

class History {
 public:
  static constexpr size_t kMaxPoints = 512;

  // Adding the same sample again has no effect.
  void add(const watch::Sampled& sampled);
  // The oldest first; empty for a device that was not seen.
  [[nodiscard]] const std::deque<HistoryPoint>& of(const watch::Device& device) const;
  // Over all links, both directions, since the previous sample; unknown after the first one.
  [[nodiscard]] std::optional<uint64_t> nvlink_bytes_per_second(const watch::Device& device) const;

 private:
  struct Kept {
    std::deque<HistoryPoint> points;
    std::optional<uint64_t> nvlink_bytes;
    std::optional<uint64_t> nvlink_rate;
    uint64_t number = 0;  // the last sample with it
  };
  static void add_to(Kept& kept, const watch::Device& device, uint64_t time_ns);

  std::map<std::string, Kept> kept_;  // by what identifies the device
  uint64_t number_ = 0;
};

}  // namespace vram::show::top
