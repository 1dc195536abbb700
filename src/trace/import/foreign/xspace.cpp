// XSpace, after xplane.proto: planes with lines (threads) of events, whose names and statistics are
// numbers of a table of their plane.
#include "trace/import/foreign/changes.hpp"
#include "trace/import/foreign/foreign.hpp"
#include "trace/import/foreign/protobuf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::trace {
namespace {

using protozero::pbf_reader;

constexpr uint64_t kMaxXSpaceBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxBlockBytes = uint64_t{1} << 48;
// Far more than events of a profiler have; further ones are left out.
constexpr size_t kMaxEventStats = 256;
constexpr size_t kMaxPlaneNames = size_t{1} << 22;

namespace xplane_field {
constexpr uint32_t kPlane = 1;      // of XSpace
constexpr uint32_t kPlaneName = 2;  // of XPlane
constexpr uint32_t kLine = 3;
constexpr uint32_t kEventMetadata = 4;  // entries of maps: key 1, value 2
constexpr uint32_t kStatMetadata = 5;
constexpr uint32_t kPlaneStat = 6;
constexpr uint32_t kKey = 1;
constexpr uint32_t kValue = 2;
constexpr uint32_t kMetadataName = 2;  // of XEventMetadata and XStatMetadata
constexpr uint32_t kLineTime = 3;      // of XLine, in ns
constexpr uint32_t kEvent = 4;
constexpr uint32_t kEventName = 1;      // of XEvent: a number
constexpr uint32_t kEventOffset = 2;    // in ps
constexpr uint32_t kEventDuration = 3;  // in ps
constexpr uint32_t kEventStat = 4;
constexpr uint32_t kStatName = 1;  // of XStat: a number
constexpr uint32_t kStatUnsigned = 3;
constexpr uint32_t kStatSigned = 4;
constexpr uint32_t kStatText = 5;
constexpr uint32_t kStatReference = 7;  // the number of a name
}  // namespace xplane_field

using XNames = std::unordered_map<uint64_t, std::string_view>;

std::string_view xname_in(const XNames& names, uint64_t number) {
  const auto found = names.find(number);
  return found == names.end() ? std::string_view() : found->second;
}

// An entry of a map from numbers to messages with a name.
void read_xname(pbf_reader entry, XNames& names) {
  uint64_t key = 0;
  std::string_view name;
  while (entry.next()) {
    if (has_number(entry, xplane_field::kKey)) {
      key = entry.get_uint64();
    } else if (has_bytes(entry, xplane_field::kValue)) {
      pbf_reader value = entry.get_message();
      while (value.next()) {
        if (has_bytes(value, xplane_field::kMetadataName))
          name = text_of(value);
        else
          value.skip();
      }
    } else {
      entry.skip();
    }
  }
  if (names.size() < kMaxPlaneNames) names.try_emplace(key, name);
}

struct XPlane {
  std::string_view name;
  XNames events;
  XNames stats;
  std::string_view message;
};

// The tables come after the lines that need them.
XPlane read_xplane(std::string_view bytes) {
  XPlane plane;
  plane.message = bytes;
  pbf_reader message(bytes.data(), bytes.size());
  while (message.next()) {
    if (has_bytes(message, xplane_field::kPlaneName))
      plane.name = text_of(message);
    else if (has_bytes(message, xplane_field::kEventMetadata))
      read_xname(message.get_message(), plane.events);
    else if (has_bytes(message, xplane_field::kStatMetadata))
      read_xname(message.get_message(), plane.stats);
    else
      message.skip();
  }
  return plane;
}

// A statistic of an event: a number or a text.
struct XStat {
  std::string_view name;
  std::optional<uint64_t> number;
  std::string_view text;
};

XStat read_xstat(pbf_reader message, const XNames& names) {
  XStat stat;
  while (message.next()) {
    if (has_number(message, xplane_field::kStatName))
      stat.name = xname_in(names, message.get_uint64());
    else if (has_number(message, xplane_field::kStatUnsigned) ||
             has_number(message, xplane_field::kStatSigned))
      stat.number = message.get_uint64();
    else if (has_bytes(message, xplane_field::kStatText))
      stat.text = text_of(message);
    else if (has_number(message, xplane_field::kStatReference))
      stat.text = xname_in(names, message.get_uint64());
    else
      message.skip();
  }
  return stat;
}

class XSpaceReader {
 public:
  explicit XSpaceReader(Trace& trace) : trace_(trace) {}

  void read(std::string_view bytes);
  [[nodiscard]] Result<> finish();

 private:
  // A change at a moment: times of one line are ns of the line and ps of the event.
  struct Timed {
    MemoryChange change;
    uint64_t rest_ps = 0;
  };
  struct EventFields {
    std::string_view name;
    uint64_t offset_ps = 0;
    uint64_t duration_ps = 0;
    std::vector<XStat> stats;
  };
  [[nodiscard]] static EventFields read_event(pbf_reader message, const XPlane& plane);
  void read_plane(const XPlane& plane);
  void read_line(pbf_reader message, const XPlane& plane);
  void add_change(const EventFields& event, int64_t line_ns);
  void add_step(const EventFields& event, int64_t line_ns);
  [[nodiscard]] StackId stack_of(std::string_view op, std::string_view region,
                                 std::string_view shape);
  [[nodiscard]] int64_t time_ns(int64_t line_ns, uint64_t offset_ps) const {
    constexpr uint64_t kThousand = 1000;
    return static_cast<int64_t>(static_cast<uint64_t>(line_ns) + offset_ps / kThousand);
  }

  Trace& trace_;
  std::vector<Timed> changes_;
  int64_t start_ns_ = 0;  // what the times of lines count from
  uint64_t without_use_ = 0;
};

XSpaceReader::EventFields XSpaceReader::read_event(pbf_reader message, const XPlane& plane) {
  EventFields event;
  while (message.next()) {
    if (has_number(message, xplane_field::kEventName))
      event.name = xname_in(plane.events, message.get_uint64());
    else if (has_number(message, xplane_field::kEventOffset))
      event.offset_ps = message.get_uint64();
    else if (has_number(message, xplane_field::kEventDuration))
      event.duration_ps = message.get_uint64();
    else if (has_bytes(message, xplane_field::kEventStat) && event.stats.size() < kMaxEventStats)
      event.stats.push_back(read_xstat(message.get_message(), plane.stats));
    else
      message.skip();
  }
  return event;
}

void XSpaceReader::read_line(pbf_reader message, const XPlane& plane) {
  int64_t line_ns = 0;
  for (pbf_reader fields = message; fields.next();) {
    if (has_number(fields, xplane_field::kLineTime))
      line_ns = fields.get_int64();
    else
      fields.skip();
  }
  while (message.next()) {
    if (!has_bytes(message, xplane_field::kEvent)) {
      message.skip();
      continue;
    }
    const EventFields event = read_event(message.get_message(), plane);
    if (event.name == "MemoryAllocation" || event.name == "MemoryDeallocation")
      add_change(event, line_ns);
    else
      add_step(event, line_ns);
  }
}

// The operator and what the memory is, as "output float32[16,64]".
StackId XSpaceReader::stack_of(std::string_view op, std::string_view region,
                               std::string_view shape) {
  std::vector<FrameId> frames;
  StringTable& strings = trace_.tables.strings;
  if (!op.empty()) frames.push_back(trace_.tables.frames.intern({.function = strings.intern(op)}));
  if (!region.empty()) {
    const std::string text =
        shape.empty() || shape == "[]" ? std::string(region) : fmt::format("{} {}", region, shape);
    frames.push_back(trace_.tables.frames.intern({.function = strings.intern(text)}));
  }
  return trace_.tables.stacks.intern(frames);
}

void XSpaceReader::add_change(const EventFields& event, int64_t line_ns) {
  constexpr uint64_t kThousand = 1000;
  Timed timed{.change = {}, .rest_ps = event.offset_ps % kThousand};
  MemoryChange& change = timed.change;
  change.time_ns = time_ns(line_ns, event.offset_ps);
  change.is_alloc = event.name == "MemoryAllocation";
  std::string_view op;
  std::string_view region;
  std::string_view shape;
  for (const XStat& stat : event.stats) {
    if (stat.name == "addr") change.address = stat.number.value_or(0);
    if (stat.name == "requested_bytes") change.requested_bytes = stat.number.value_or(0);
    if (stat.name == "allocation_bytes") change.block_bytes = stat.number.value_or(0);
    if (stat.name == "allocator_name")
      std::tie(change.kind, change.device) = device_of_allocator(stat.text);
    if (stat.name == "tf_op") op = stat.text;
    if (stat.name == "region_type") region = stat.text;
    if (stat.name == "shape") shape = stat.text;
  }
  change.block_bytes = std::max(change.block_bytes, change.requested_bytes);
  if (change.address == 0 || change.block_bytes == 0 || change.block_bytes > kMaxBlockBytes) {
    ++without_use_;
    return;
  }
  if (change.is_alloc) change.stack = stack_of(op, region, shape);
  trace_.has_stacks |= change.stack != 0;
  changes_.push_back(timed);
}

// tf.profiler.experimental.Trace("train", step_num=3), jax.profiler.StepTraceAnnotation.
void XSpaceReader::add_step(const EventFields& event, int64_t line_ns) {
  const auto number = std::ranges::find(event.stats, "step_num", &XStat::name);
  if (number == event.stats.end() || !number->number || event.duration_ps == 0) return;
  const uint64_t end_ps =
      event.offset_ps + std::min(event.duration_ps, UINT64_MAX - event.offset_ps);
  const StringId name =
      trace_.tables.strings.intern(fmt::format("ProfilerStep#{}", *number->number));
  trace_.annotations.push_back(
      {.time_ns = time_ns(line_ns, event.offset_ps), .name = name, .is_begin = true});
  trace_.annotations.push_back(
      {.time_ns = time_ns(line_ns, end_ps), .name = name, .is_begin = false});
}

void XSpaceReader::read(std::string_view bytes) {
  pbf_reader space(bytes.data(), bytes.size());
  while (space.next()) {
    if (!has_bytes(space, xplane_field::kPlane)) {
      space.skip();
      continue;
    }
    read_plane(read_xplane(text_of(space)));
  }
}

void XSpaceReader::read_plane(const XPlane& plane) {
  pbf_reader message(plane.message.data(), plane.message.size());
  while (message.next()) {
    if (has_bytes(message, xplane_field::kLine)) {
      read_line(message.get_message(), plane);
    } else if (has_bytes(message, xplane_field::kPlaneStat)) {
      const XStat stat = read_xstat(message.get_message(), plane.stats);
      if (stat.name == "profile_start_time")
        start_ns_ = static_cast<int64_t>(stat.number.value_or(0));
    } else {
      message.skip();
    }
  }
}

Result<> XSpaceReader::finish() {
  if (changes_.empty())
    return fail(Code::kBadInput,
                "the profile has no memory events: TensorFlow and JAX write them for the "
                "allocators of GPUs (for the CPU's with TF_CPU_ALLOCATOR_USE_BFC=1)");
  std::ranges::stable_sort(changes_, {}, [](const Timed& timed) {
    return std::pair(timed.change.time_ns, timed.rest_ps);
  });
  std::vector<MemoryChange> changes;
  changes.reserve(changes_.size());
  const bool has_gpu = std::ranges::any_of(
      changes_, [](const Timed& timed) { return timed.change.kind == DeviceKind::kGpu; });
  const auto absolute = [&](int64_t time_ns) {
    return static_cast<int64_t>(static_cast<uint64_t>(start_ns_) + static_cast<uint64_t>(time_ns));
  };
  for (Timed& timed : changes_) {
    timed.change.time_ns = absolute(timed.change.time_ns);
    changes.push_back(timed.change);
  }
  for (Annotation& annotation : trace_.annotations)
    annotation.time_ns = absolute(annotation.time_ns);
  std::ranges::stable_sort(trace_.annotations, {}, &Annotation::time_ns);
  place_changes(std::move(changes), trace_);
  trace_.has_time = true;
  if (without_use_ != 0)
    trace_.origin.notes.push_back(
        {tr_later("memory events without bytes or address left out"), without_use_});
  if (!has_gpu)
    trace_.origin.notes.push_back(
        {tr_later("only host memory was profiled; reports call this device pinned host memory")});
  trace_.origin.notes.push_back(
      {tr_later("XProf records no segments or streams: reserved bytes are those of the blocks")});
  return {};
}

}  // namespace

Result<Trace> import_xspace(ByteSource& source, const OpenOptions& options) {
  VRAM_TRY_ASSIGN(const std::string bytes, read_all(source, options, kMaxXSpaceBytes, "a profile"));
  if (source.is_truncated())
    return fail(Code::kBadInput, "the profile is truncated: its names come last");
  Trace trace;
  XSpaceReader reader(trace);
  try {
    reader.read(bytes);
  } catch (const protozero::exception& error) {
    return fail(Code::kBadInput, "expected a profile of XProf (XSpace), found damaged protobuf: {}",
                error.what());
  }
  VRAM_TRY(reader.finish());
  trace.origin.format = "XProf profile";
  return trace;
}

}  // namespace vram::trace
