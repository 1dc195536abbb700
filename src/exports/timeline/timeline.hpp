// A recording as a timeline, for the formats that have tracks of slices, counters and instants:
// draw_timeline() walks the events once and calls a TimelineSink, which writes a format. One thread
// at a time.
#pragma once

#include "base/result.hpp"
#include "reports/recording.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace vram::exports {

struct Argument {
  std::string_view name;
  std::variant<uint64_t, std::string_view> value;
};

// Ids are chosen by draw_timeline(): unique among tracks of all kinds, from 1 on. Times are
// nanoseconds of the recording's clock (unix), or numbers of events, and at least 0. On one track
// they never fall; on different tracks they may.
class TimelineSink {
 public:
  using Id = uint64_t;

  TimelineSink() = default;
  TimelineSink(const TimelineSink&) = delete;
  TimelineSink& operator=(const TimelineSink&) = delete;
  virtual ~TimelineSink() = default;

  // A device, or a titled part of one (`parent` is the device then; else 0).
  virtual void add_group(Id group, Id parent, std::string_view name) = 0;
  // A track of bytes.
  virtual void add_counter(Id track, Id group, std::string_view name) = 0;
  // A track of slices and instants.
  virtual void add_track(Id track, Id group, std::string_view name) = 0;

  virtual void count(Id track, int64_t time_ns, uint64_t bytes) = 0;
  virtual void begin(Id track, int64_t time_ns, std::string_view name,
                     std::span<const Argument> arguments) = 0;
  // Of the slice that began last on this track. A slice may remain without an end.
  virtual void end(Id track, int64_t time_ns) = 0;
  virtual void instant(Id track, int64_t time_ns, std::string_view name,
                       std::span<const Argument> arguments) = 0;
};

// The blocks of a device that are drawn one by one: as many as viewers cope with. What is smaller
// than the smallest of them is only in the totals; the title of the blocks' group says so.
inline constexpr uint32_t kMaxLanes = 512;
inline constexpr uint64_t kMaxDrawnBlocks = 500'000;

// The earliest time that draw_timeline() passes to a sink.
[[nodiscard]] int64_t timeline_begin_ns(const reports::Recording& recording);

void draw_timeline(const reports::Recording& recording, TimelineSink& sink);

}  // namespace vram::exports
