#include "exports/timeline/timeline.hpp"

#include "base/bytes.hpp"
#include "explain/moment/device_view.hpp"
#include "exports/timeline/lanes.hpp"
#include "reports/trace_tables.hpp"
#include "show/names.hpp"
#include "trace/export/export.hpp"
#include "trace/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::exports {
namespace {

using explain::DeviceView;
using explain::GroupNames;
using explain::Lifetime;
using explain::Totals;
using Id = TimelineSink::Id;

struct Counter {
  std::string_view name;
  uint64_t Totals::* total;
};
constexpr std::array kCounters = {
    Counter{"reserved", &Totals::reserved_bytes}, Counter{"active", &Totals::active_bytes},
    Counter{"allocated", &Totals::allocated_bytes}, Counter{"requested", &Totals::requested_bytes}};

// Texts that many blocks share, each made once.
class BlockTexts {
 public:
  explicit BlockTexts(const DeviceView& view)
      : tables_(view.trace.tables),
        holders_(view, explain::Dimension::kUserFrame),
        frames_(tables_, [](std::string& out, std::string_view text) { out += text; }) {}

  [[nodiscard]] const std::string& holder(uint32_t lifetime) { return holders_.name(lifetime); }
  [[nodiscard]] const std::string& stack(trace::StackId id) {
    auto [entry, is_new] = stacks_.try_emplace(id);
    if (is_new) {
      for (const trace::FrameId frame : tables_.stacks[id]) {
        if (!entry->second.empty()) entry->second += '\n';
        entry->second += frames_[frame];
      }
    }
    return entry->second;
  }

 private:
  const trace::Tables& tables_;
  GroupNames holders_;
  trace::FrameTexts frames_;
  std::unordered_map<trace::StackId, std::string> stacks_;
};

class DeviceTimeline {
 public:
  DeviceTimeline(const DeviceView& view, TimelineSink& sink, Id& last_id)
      : view_(view),
        sink_(sink),
        last_id_(last_id),
        texts_(view),
        min_bytes_(smallest_drawn_bytes(view.history, view.device.event_count, kMaxLanes,
                                        kMaxDrawnBlocks)) {}

  void draw() {
    add_tracks();
    draw_steps();
    draw_scopes();
    draw_marks();
    draw_device_used();
    draw_events();
  }

 private:
  static constexpr uint32_t kNoLane = 0xffffffff;

  void add_tracks();
  void draw_steps();
  void draw_scopes();
  void draw_marks();
  void draw_device_used();
  void draw_events();
  void draw_before();
  void draw_event(const trace::Event& event, uint32_t index);
  void draw_oom(const trace::Event& event, uint32_t index);
  void begin_block(uint32_t lifetime);
  void end_block(uint32_t lifetime);
  void count_changes(const Totals& totals, bool all);

  // Of a time since the recording's first event. Formats have no times before 0.
  [[nodiscard]] int64_t absolute(int64_t time_ns) const {
    if (!view_.trace.has_time) return std::max<int64_t>(time_ns, 0);
    const auto sum = static_cast<int64_t>(static_cast<uint64_t>(view_.clock.origin_unix_ns()) +
                                          static_cast<uint64_t>(time_ns));
    return std::max<int64_t>(sum, 0);
  }

  const DeviceView& view_;
  TimelineSink& sink_;
  Id& last_id_;
  BlockTexts texts_;
  uint64_t min_bytes_;
  Id group_ = 0;
  Id blocks_group_ = 0;
  Id moments_ = 0;
  std::array<Id, kCounters.size()> counters_ = {};
  Totals shown_ = {};
  int64_t now_ = 0;  // clocks step back; tracks do not
  Lanes lanes_;
  std::vector<Id> lane_tracks_;
  std::vector<uint32_t> lane_of_;  // by lifetime
};

void DeviceTimeline::add_tracks() {
  group_ = ++last_id_;
  sink_.add_group(group_, 0, show::device_name(view_.report));
  for (size_t i = 0; i < kCounters.size(); ++i) {
    counters_[i] = ++last_id_;
    sink_.add_counter(counters_[i], group_, kCounters[i].name);
  }
  moments_ = ++last_id_;
  sink_.add_track(moments_, group_, "moments");
  const auto drawn = static_cast<uint64_t>(std::ranges::count_if(
      view_.history.lifetimes, [&](const Lifetime& l) { return l.block_bytes >= min_bytes_; }));
  const uint64_t left_out = view_.history.lifetimes.size() - drawn;
  blocks_group_ = ++last_id_;
  sink_.add_group(
      blocks_group_, group_,
      left_out == 0
          ? fmt::format("blocks ({})", format_count(drawn))
          : fmt::format("blocks of {} and more ({}; {} smaller ones are not drawn)",
                        format_bytes(min_bytes_), format_count(drawn), format_count(left_out)));
}

void DeviceTimeline::draw_steps() {
  if (view_.report.steps.steps.empty()) return;
  const Id track = ++last_id_;
  sink_.add_track(track, group_, "steps");
  int64_t end = 0;
  for (const explain::Step& step : view_.report.steps.steps) {
    const std::array arguments = {Argument{"peak_requested_bytes", step.peak_requested_bytes},
                                  Argument{"peak_reserved_bytes", step.peak_reserved_bytes},
                                  Argument{"end_requested_bytes", step.end_requested_bytes},
                                  Argument{"first_event", step.first_event},
                                  Argument{"event_count", step.event_count}};
    const int64_t begin = std::max(end, absolute(step.begin_ns));
    end = std::max(begin, absolute(step.end_ns));
    sink_.begin(track, begin, step.name, arguments);
    sink_.end(track, end);
  }
}

// Children are within their parents in the tree; their times are made to be.
void DeviceTimeline::draw_scopes() {
  if (view_.scopes.all.empty()) return;
  const Id track = ++last_id_;
  sink_.add_track(track, group_, "scopes");
  struct Open {
    uint32_t scope;
    int64_t end;
  };
  std::vector<Open> open;
  int64_t now = 0;
  const auto close_last = [&] {
    now = std::max(now, open.back().end);
    sink_.end(track, now);
    open.pop_back();
  };
  for (uint32_t i = 0; i < view_.scopes.all.size(); ++i) {
    const explain::Scope& scope = view_.scopes.all[i];
    while (!open.empty() && open.back().scope != scope.parent) close_last();
    now = std::max(now, scope.begin_ns);
    int64_t end = std::max(now, scope.end_ns);
    if (!open.empty()) {
      now = std::min(now, open.back().end);
      end = std::min(end, open.back().end);
    }
    sink_.begin(track, now, view_.trace.tables.strings[scope.name], {});
    open.push_back({i, end});
  }
  while (!open.empty()) close_last();
}

// Calls of several threads may overlap, which slices of a track must not: the later one is moved.
void DeviceTimeline::draw_marks() {
  std::vector<const trace::Mark*> marks;
  for (const trace::Mark& mark : view_.trace.marks)
    if (mark.device == view_.device.ordinal || mark.device == trace::kNoDevice)
      marks.push_back(&mark);
  if (marks.empty()) return;
  std::ranges::stable_sort(marks, {}, &trace::Mark::time_ns);
  const Id track = ++last_id_;
  sink_.add_track(track, group_, "communication");
  const trace::StringTable& texts = view_.trace.tables.strings;
  int64_t end = 0;
  for (const trace::Mark* mark : marks) {
    const std::array arguments = {Argument{"kind", trace::to_string(mark->kind)},
                                  Argument{"bytes", mark->size_bytes},
                                  Argument{"group", texts[mark->group]}};
    const int64_t begin = std::max(end, mark->time_ns);
    end = begin + std::min(mark->duration_ns, INT64_MAX - begin);
    sink_.begin(track, begin, texts[mark->name], arguments);
    sink_.end(track, end);
  }
}

// What the driver reported, to compare with what the allocator took.
void DeviceTimeline::draw_device_used() {
  if (view_.report.is_host) return;
  Id track = 0;
  int64_t now = 0;
  for (const trace::Figure& figure : view_.trace.figures) {
    if (figure.device != view_.device.ordinal || figure.value == trace::figures::kUnknown ||
        view_.trace.tables.strings[figure.name] != trace::figures::kUsed)
      continue;
    if (track == 0) {
      track = ++last_id_;
      sink_.add_counter(track, group_, "device used");
    }
    now = std::max(now, figure.time_ns);
    sink_.count(track, now, figure.value);
  }
}

void DeviceTimeline::count_changes(const Totals& totals, bool all) {
  for (size_t i = 0; i < kCounters.size(); ++i) {
    const uint64_t bytes = totals.*kCounters[i].total;
    if (all || bytes != shown_.*kCounters[i].total) sink_.count(counters_[i], now_, bytes);
  }
  shown_ = totals;
}

void DeviceTimeline::begin_block(uint32_t lifetime) {
  const Lifetime& life = view_.history.lifetimes[lifetime];
  if (life.block_bytes < min_bytes_) return;
  const uint32_t lane = lanes_.take();
  lane_of_[lifetime] = lane;
  if (lane >= lane_tracks_.size()) {
    lane_tracks_.push_back(++last_id_);
    sink_.add_track(last_id_, blocks_group_, fmt::format("lane {}", lane + 1));
  }
  std::string address;
  trace::append_address(address, life.address);
  std::vector<Argument> arguments = {
      {"requested_bytes", life.requested_bytes},
      {"block_bytes", life.block_bytes},
      {"address", std::string_view(address)},
      {"stream", view_.trace.tables.streams[life.stream]},
  };
  if (life.alloc_event != explain::kBeforeRecording)
    arguments.push_back({"alloc_event", uint64_t{life.alloc_event}});
  if (life.stack != 0) arguments.push_back({"stack", std::string_view(texts_.stack(life.stack))});
  sink_.begin(lane_tracks_[lane], now_, texts_.holder(lifetime), arguments);
}

void DeviceTimeline::end_block(uint32_t lifetime) {
  const uint32_t lane = lane_of_[lifetime];
  if (lane == kNoLane) return;
  lane_of_[lifetime] = kNoLane;
  sink_.end(lane_tracks_[lane], now_);
  lanes_.give_back(lane);
}

void DeviceTimeline::draw_before() {
  for (uint32_t i = 0; i < view_.history.lifetimes.size(); ++i) {
    if (view_.history.lifetimes[i].alloc_event != explain::kBeforeRecording) break;
    begin_block(i);
  }
}

void DeviceTimeline::draw_oom(const trace::Event& event, uint32_t index) {
  // size_bytes failed, and the address is what the driver reported free.
  const std::array arguments = {Argument{"requested_bytes", event.size_bytes},
                                Argument{"device_free_bytes", event.address},
                                Argument{"event", uint64_t{index}}};
  sink_.instant(moments_, now_, "out of memory", arguments);
}

void DeviceTimeline::draw_event(const trace::Event& event, uint32_t index) {
  if (event.kind == trace::EventKind::kOom) draw_oom(event, index);
  const uint32_t lifetime = view_.history.lifetime_of_event[index];
  if (lifetime == explain::kNoLifetime) return;
  const Lifetime& life = view_.history.lifetimes[lifetime];
  if (life.alloc_event == index) begin_block(lifetime);
  if (life.free_completed_event == index) end_block(lifetime);
}

void DeviceTimeline::draw_events() {
  const auto events = view_.trace.events_of(view_.device);
  lane_of_.assign(view_.history.lifetimes.size(), kNoLane);
  now_ = absolute(view_.clock.time_ns(explain::kBeforeFirstEvent));
  explain::TotalsWalker walker(events, view_.history);
  count_changes(walker.totals(), true);
  draw_before();
  const auto peak = static_cast<uint64_t>(std::max<int64_t>(view_.report.peak.requested.event, 0));
  auto implied = view_.history.implied_frees.begin();
  for (uint32_t index = 0; index < events.size(); ++index) {
    now_ = std::max(now_, absolute(view_.clock.time_ns(index)));
    for (; implied != view_.history.implied_frees.end() && implied->event <= index; ++implied)
      end_block(implied->lifetime);
    draw_event(events[index], index);
    walker.step();
    count_changes(walker.totals(), false);
    if (index != peak) continue;
    const std::array arguments = {
        Argument{"requested_bytes", view_.report.peak.requested.totals.requested_bytes},
        Argument{"event", uint64_t{index}}};
    sink_.instant(moments_, now_, "peak", arguments);
  }
}

}  // namespace

int64_t timeline_begin_ns(const reports::Recording& recording) {
  if (!recording.trace.has_time) return 0;
  int64_t begin = INT64_MAX;
  for (const trace::DeviceTrace& device : recording.trace.devices)
    begin = std::min(begin, explain::EventClock(recording.trace, device).origin_unix_ns());
  for (const trace::Annotation& annotation : recording.trace.annotations)
    begin = std::min(begin, annotation.time_ns);
  for (const trace::Figure& figure : recording.trace.figures)
    begin = std::min(begin, figure.time_ns);
  for (const trace::Mark& mark : recording.trace.marks) begin = std::min(begin, mark.time_ns);
  return std::max<int64_t>(begin, 0);
}

void draw_timeline(const reports::Recording& recording, TimelineSink& sink) {
  Id last_id = 0;
  for (size_t i = 0; i < recording.trace.devices.size(); ++i) {
    const DeviceView view(recording.trace, recording.report, i);
    DeviceTimeline(view, sink, last_id).draw();
  }
}

}  // namespace vram::exports
