// States: everything about a device at given moments (the peak, --at, an OOM), collected for all of
// them in one pass. Pure; allocates for the live blocks.
#pragma once

#include "base/result.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/names/names.hpp"
#include "explain/report.hpp"
#include "explain/site/scopes.hpp"
#include "replay/segment_map.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vram::explain {

// Sources: the data of one device from which moments are computed. Views; the creator owns the
// parts.
struct Sources {
  const trace::Trace& trace;
  const trace::DeviceTrace& device;
  const History& history;
  const EventClock& clock;
  const Curve& curve;
  const Scopes& scopes;
  const Names& names;
};

// The state after each of these events, or before the first one (kBeforeFirstEvent), in their
// order.
[[nodiscard]] std::vector<State> states_after(const Sources& sources,
                                              std::span<const int64_t> events);

// OOM events: the request, the device's memory, and the holders of the rest. Pure.

// Programs that catch the error and try again may fail thousands of times: the first and the last
// are explained.
inline constexpr size_t kMaxOoms = 16;

// The numbers of their events: all of them.
[[nodiscard]] std::vector<uint64_t> oom_events(std::span<const trace::Event> events);
// At most kMaxOoms. Oom::step is set by the caller.
[[nodiscard]] std::vector<Oom> find_ooms(const Sources& sources);

// LiveSet: the segments and live blocks of a device at one moment, by address. The space between
// the blocks of a segment is free: free neighbours always merge, so a gap is a hole. Collected for
// several moments in one pass over the lifetimes and one over the segment events. Allocates for its
// result; not thread-safe.
struct LiveSet {
  int64_t event = 0;  // kBeforeFirstEvent: before the first one
  SegmentMap segments;
  std::vector<uint32_t> lifetimes;  // active after `event`, by address
};

// One for each of `events`, in their order.
[[nodiscard]] std::vector<LiveSet> gather_live(const trace::Trace& trace,
                                               const trace::DeviceTrace& device,
                                               const History& history,
                                               std::span<const int64_t> events);

// A segment and its live blocks: lifetimes[first .. last) of the set.
struct SegmentView {
  uint64_t address = 0;
  SegmentRange range;
  size_t first = 0;
  size_t last = 0;
};

[[nodiscard]] std::vector<SegmentView> view_segments(const History& history, const LiveSet& live);

// Calls hole(address, size_bytes) for each free range of a segment.
template <typename OnHole>
void for_each_hole(const History& history, const LiveSet& live, const SegmentView& segment,
                   OnHole&& hole) {
  uint64_t cursor = segment.address;
  for (size_t i = segment.first; i < segment.last; ++i) {
    const Lifetime& lifetime = history.lifetimes[live.lifetimes[i]];
    if (lifetime.address > cursor) hole(cursor, lifetime.address - cursor);
    cursor = lifetime.address + lifetime.block_bytes;
  }
  const uint64_t end = segment.address + segment.range.size_bytes;
  if (end > cursor) hole(cursor, end - cursor);
}

// The moments that --at and other callers can name.
enum class MomentKind { kTime, kEvent, kStep, kPeak, kOom };

struct MomentRequest {
  MomentKind kind = MomentKind::kTime;
  uint64_t value = 0;  // nanoseconds, an event's number, a step's or an OOM's index
};

// "1.5s", "250ms", "event:1234", "step:12", "peak", "oom", "oom:1". `option`: what the error calls
// the text.
[[nodiscard]] Result<MomentRequest> parse_moment(std::string_view option, std::string_view text);

// The state of a device after the last event up to the moment; for a step, where most was requested
// in it. Replays the events of the device, unless the report has the state. `report`: of this
// trace. `device`: an index in Report::devices. kNotFound if the recording has no such moment; the
// message begins with the moment.
[[nodiscard]] Result<State> find_state(const trace::Trace& trace, const Report& report,
                                       size_t device, const MomentRequest& request);

}  // namespace vram::explain
