// Columns: the memory of a device as a picture shows it: one column for each unit of its width,
// however many events there are. Pure; linear in the events.
#pragma once

#include "base/result.hpp"
#include "explain/moment/device_view.hpp"
#include "explain/moment/state.hpp"
#include "pages/groups.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::pictures {

enum class AxisKind : uint8_t { kTime, kEvent };

// A part of a recording: of nanoseconds since its first event, or of positions, which count the
// events that have happened.
struct Window {
  AxisKind axis = AxisKind::kTime;
  double from = 0;
  double to = 1;  // greater than `from`
};

struct WindowRequest {
  std::optional<AxisKind> axis = {};                // else time, if the recording has a clock
  std::optional<explain::MomentRequest> from = {};  // a step's beginning
  std::optional<explain::MomentRequest> to = {};    // a step's end
};

// kBadInput: the recording has no clock, or nothing is between both moments; kNotFound: it has no
// such moment. The messages name the option.
[[nodiscard]] Result<Window> find_window(const explain::DeviceView& view,
                                         const WindowRequest& request);

// Where the state after an event begins on the axis of a window. Clocks may step back; here time
// stands still then.
class AxisScale {
 public:
  AxisScale(const explain::DeviceView& view, const Window& window);

  [[nodiscard]] double of_position(uint64_t position) const;
  [[nodiscard]] double of_event(int64_t event) const {
    return of_position(static_cast<uint64_t>(event + 1));
  }
  // `time_ns`: since the recording's first event.
  [[nodiscard]] double of_time(int64_t time_ns) const;
  [[nodiscard]] const Window& window() const { return window_; }

 private:
  Window window_;
  std::vector<int64_t> times_;  // by event; never falling
};

struct ColumnGroup {
  std::string name;
  size_t rank = 0;              // kShownGroups: all further groups
  std::vector<uint64_t> bytes;  // where most was requested in a column, so that groups add up
};

struct Columns {
  std::vector<uint64_t> peak;      // requested: the largest
  std::vector<uint64_t> low;       // the smallest
  std::vector<uint64_t> reserved;  // the largest
  std::vector<uint64_t> used;      // of the device, by all processes; empty: not recorded
  // By column: the event after which most was requested, and the first one in it; both never fall.
  std::vector<int64_t> peak_events;
  std::vector<int64_t> first_events;
  std::vector<ColumnGroup> groups;
  size_t peak_column = 0;   // of the window
  int64_t last_event = -1;  // in the window
};

// Without groups and what the device used.
[[nodiscard]] Columns gather_totals(const explain::DeviceView& view, const AxisScale& scale,
                                    size_t count);

[[nodiscard]] Columns gather_columns(const explain::DeviceView& view, const pages::Groups& groups,
                                     const AxisScale& scale, size_t count);

}  // namespace vram::pictures
