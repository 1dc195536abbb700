// screen: vram top's whole screen as a grid, a pure function of the user's choices, the sample, and
// the time.
//
//     TopState, History, Sampled, Clock, Size ──▶ draw() ──▶ Grid ──▶ terminal, or text
#pragma once

#include "show/top/grid.hpp"
#include "show/top/state.hpp"
#include "watch/sampler.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::show::top {

// In order of importance: the last kinds are left out first if there is too little space.
enum class DeviceLineKind : uint8_t { kDevice, kWorst, kInstance, kRemark };

struct DeviceLine {
  Line line;
  std::optional<uint32_t> device;  // none: titles
  DeviceLineKind kind = DeviceLineKind::kDevice;
};

// A range of rows; 0: no space for it.
struct Band {
  int row = 0;
  int rows = 0;
  [[nodiscard]] bool has(int at) const { return at >= row && at < row + rows; }
};

struct ColumnPlace {
  Field field;
  int column = 0;
  int columns = 0;
};

// View: the layout of a screen of a given size, and the rows on it; shared by drawing and mouse
// handling. Valid as long as the snapshot.
struct View {
  std::vector<DeviceLine> devices;
  int left_out = 0;  // of the lines about devices
  std::vector<ColumnPlace> columns;
  std::vector<Row> rows;
  size_t selected = 0;  // of the rows, if there are any
  size_t first = 0;
  Band device_band;
  Band plot_band;
  Band title_band;
  Band list_band;
  Band note_band;
  Band foot_band;
  Band bar_band;
};

class History;

[[nodiscard]] View view_of(const TopState& state, const watch::Snapshot& snapshot,
                           const History& history, Size size);

struct Clock {
  uint64_t now_ns = 0;      // monotonic
  uint64_t overdue_ns = 0;  // how much longer than the period the current sample takes
};

struct Surface {
  Size size;
  bool unicode = true;
  bool is_still = false;  // one picture on paper: no selection, no keys
};

// `sampled` is nullptr before the first sample.
[[nodiscard]] Grid draw(const TopState& state, const History& history,
                        const watch::Sampled* sampled, Clock clock, Surface surface);

// The process list: titles, rows, selection and tags. A pure function.

void draw_list(const View& view, const TopState& state, const watch::Snapshot& snapshot,
               bool has_cursor, Grid& grid);

}  // namespace vram::show::top
