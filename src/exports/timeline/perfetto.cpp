// Perfetto's trace format: concatenated packets of protobuf, one for each event. Numbers of fields
// are those of perfetto_trace.proto.
#include "base/export_marks.hpp"
#include "base/text.hpp"
#include "exports/export_file.hpp"
#include "exports/exports.hpp"
#include "exports/timeline/timeline.hpp"
#include "trace/event.hpp"

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace vram::exports {
namespace {

using protozero::pbf_writer;

namespace trace_field {
constexpr uint32_t kPacket = 1;
}
namespace packet_field {
constexpr uint32_t kClockSnapshot = 6;
constexpr uint32_t kTimestamp = 8;
constexpr uint32_t kSequence = 10;
constexpr uint32_t kTrackEvent = 11;
constexpr uint32_t kInternedData = 12;
constexpr uint32_t kSequenceFlags = 13;
constexpr uint32_t kTrackDescriptor = 60;
}  // namespace packet_field
namespace clock_field {
constexpr uint32_t kClock = 1;
constexpr uint32_t kClockId = 1;
constexpr uint32_t kTimestamp = 2;
constexpr uint32_t kRealTime = 1;
constexpr uint32_t kBootTime = 6;  // of timestamps that name no clock
}  // namespace clock_field
namespace track_field {
constexpr uint32_t kUuid = 1;
constexpr uint32_t kName = 2;
constexpr uint32_t kParent = 5;
constexpr uint32_t kCounter = 8;
constexpr uint32_t kChildOrdering = 11;
constexpr uint32_t kRank = 12;
constexpr uint32_t kDescription = 14;
constexpr uint32_t kExplicit = 3;  // children in the order of their ranks
}  // namespace track_field
namespace counter_field {
constexpr uint32_t kUnit = 3;
constexpr uint32_t kShareAxis = 7;
constexpr uint32_t kBytes = 3;
}  // namespace counter_field
namespace event_field {
constexpr uint32_t kAnnotation = 4;
constexpr uint32_t kType = 9;
constexpr uint32_t kNameIid = 10;
constexpr uint32_t kTrack = 11;
constexpr uint32_t kCounterValue = 30;
enum Type : int32_t { kBegin = 1, kEnd = 2, kInstant = 3, kCount = 4 };
}  // namespace event_field
namespace annotation_field {
constexpr uint32_t kNameIid = 1;
constexpr uint32_t kUnsigned = 3;
constexpr uint32_t kTextIid = 17;
}  // namespace annotation_field
namespace interned_field {
constexpr uint32_t kEventName = 2;
constexpr uint32_t kAnnotationName = 3;
constexpr uint32_t kAnnotationText = 29;
constexpr uint32_t kIid = 1;
constexpr uint32_t kText = 2;
}  // namespace interned_field

constexpr uint32_t kOurSequence = 1;
constexpr uint32_t kStateCleared = 1;
constexpr uint32_t kNeedsState = 2;
// The uuid of the track above all others. Those of draw_timeline() follow.
constexpr uint64_t kRoot = 1;

// Texts that packets name by number, of one kind.
class Interned {
 public:
  explicit Interned(uint32_t field) : field_(field) {}
  // Declares the text in `interned` when it is new.
  [[nodiscard]] uint64_t id(std::string_view text, pbf_writer& interned) {
    const auto [entry, is_new] = ids_.try_emplace(valid_utf8(text), ids_.size() + 1);
    if (is_new) {
      pbf_writer declared(interned, field_);
      declared.add_uint64(interned_field::kIid, entry->second);
      declared.add_string(interned_field::kText, entry->first);
    }
    return entry->second;
  }

 private:
  uint32_t field_;
  std::unordered_map<std::string, uint64_t> ids_;
};

class PerfettoSink final : public TimelineSink {
 public:
  explicit PerfettoSink(ExportFile& file) : file_(file) {}

  // The first packet says who wrote the file: kPerfettoTextAt.
  void write_head(const reports::Recording& recording) {
    write([&](pbf_writer& packet) {
      pbf_writer track(packet, packet_field::kTrackDescriptor);
      track.add_string(track_field::kDescription, std::string(kTextEnd).append(VRAM_VERSION));
      track.add_uint64(track_field::kUuid, kRoot);
      track.add_string(track_field::kName,
                       valid_utf8(limit_bytes(recording.trace.origin.path, trace::kMaxNameBytes)));
      track.add_enum(track_field::kChildOrdering, track_field::kExplicit);
    });
    if (recording.trace.has_time) write_clock(timeline_begin_ns(recording));
    write([&](pbf_writer& packet) {
      packet.add_uint32(packet_field::kSequence, kOurSequence);
      packet.add_uint32(packet_field::kSequenceFlags, kStateCleared);
    });
  }

  void add_group(Id group, Id parent, std::string_view name) override {
    axis_ = fmt::format("bytes {}", group);
    add(group, parent, name, [](pbf_writer& track) {
      track.add_enum(track_field::kChildOrdering, track_field::kExplicit);
    });
  }
  void add_counter(Id track, Id group, std::string_view name) override {
    add(track, group, name, [&](pbf_writer& descriptor) {
      pbf_writer counter(descriptor, track_field::kCounter);
      counter.add_enum(counter_field::kUnit, counter_field::kBytes);
      counter.add_string(counter_field::kShareAxis, axis_);
    });
  }
  void add_track(Id track, Id group, std::string_view name) override {
    add(track, group, name, [](pbf_writer&) {});
  }

  void count(Id track, int64_t time_ns, uint64_t bytes) override {
    constexpr uint64_t kLargest = INT64_MAX;  // counters are signed
    write_event(track, time_ns, event_field::kCount, [&](pbf_writer& event) {
      event.add_int64(event_field::kCounterValue, static_cast<int64_t>(std::min(bytes, kLargest)));
    });
  }
  void begin(Id track, int64_t time_ns, std::string_view name,
             std::span<const Argument> arguments) override {
    write_named(track, time_ns, event_field::kBegin, name, arguments);
  }
  void end(Id track, int64_t time_ns) override {
    write_event(track, time_ns, event_field::kEnd, [](pbf_writer&) {});
  }
  void instant(Id track, int64_t time_ns, std::string_view name,
               std::span<const Argument> arguments) override {
    write_named(track, time_ns, event_field::kInstant, name, arguments);
  }

 private:
  template <typename Fill>
  void write(Fill&& fill) {
    pbf_writer trace(file_.text());
    {
      pbf_writer packet(trace, trace_field::kPacket);
      fill(packet);
    }
    file_.flush_if_large();
  }

  // Times without a clock are CLOCK_BOOTTIME's to Perfetto, and this maps them to wall-clock times.
  void write_clock(int64_t begin_ns) {
    write([&](pbf_writer& packet) {
      pbf_writer snapshot(packet, packet_field::kClockSnapshot);
      for (const uint32_t clock : {clock_field::kBootTime, clock_field::kRealTime}) {
        pbf_writer entry(snapshot, clock_field::kClock);
        entry.add_uint32(clock_field::kClockId, clock);
        entry.add_uint64(clock_field::kTimestamp, static_cast<uint64_t>(begin_ns));
      }
    });
  }

  template <typename Fill>
  void add(Id id, Id parent, std::string_view name, Fill&& fill) {
    write([&](pbf_writer& packet) {
      pbf_writer track(packet, packet_field::kTrackDescriptor);
      track.add_uint64(track_field::kUuid, kRoot + id);
      track.add_uint64(track_field::kParent, kRoot + parent);
      track.add_string(track_field::kName, valid_utf8(name));
      track.add_int32(track_field::kRank, static_cast<int32_t>(id));
      fill(track);
    });
  }

  template <typename Fill>
  void write_event(Id track, int64_t time_ns, event_field::Type type, Fill&& fill) {
    write([&](pbf_writer& packet) {
      packet.add_uint64(packet_field::kTimestamp, static_cast<uint64_t>(time_ns));
      packet.add_uint32(packet_field::kSequence, kOurSequence);
      pbf_writer event(packet, packet_field::kTrackEvent);
      event.add_enum(event_field::kType, type);
      event.add_uint64(event_field::kTrack, kRoot + track);
      fill(event);
    });
  }

  void write_named(Id track, int64_t time_ns, event_field::Type type, std::string_view name,
                   std::span<const Argument> arguments) {
    std::string interned_bytes;
    std::string event_bytes;
    {
      pbf_writer interned(interned_bytes);
      pbf_writer event(event_bytes);
      event.add_enum(event_field::kType, type);
      event.add_uint64(event_field::kTrack, kRoot + track);
      event.add_uint64(event_field::kNameIid, event_names_.id(name, interned));
      for (const Argument& argument : arguments) add_argument(argument, event, interned);
    }
    write([&](pbf_writer& packet) {
      packet.add_uint64(packet_field::kTimestamp, static_cast<uint64_t>(time_ns));
      packet.add_uint32(packet_field::kSequence, kOurSequence);
      packet.add_uint32(packet_field::kSequenceFlags, kNeedsState);
      if (!interned_bytes.empty()) packet.add_message(packet_field::kInternedData, interned_bytes);
      packet.add_message(packet_field::kTrackEvent, event_bytes);
    });
  }

  void add_argument(const Argument& argument, pbf_writer& event, pbf_writer& interned) {
    pbf_writer annotation(event, event_field::kAnnotation);
    annotation.add_uint64(annotation_field::kNameIid, argument_names_.id(argument.name, interned));
    if (const auto* number = std::get_if<uint64_t>(&argument.value)) {
      annotation.add_uint64(annotation_field::kUnsigned, *number);
    } else {
      annotation.add_uint64(annotation_field::kTextIid,
                            texts_.id(std::get<std::string_view>(argument.value), interned));
    }
  }

  ExportFile& file_;
  std::string axis_;
  Interned event_names_{interned_field::kEventName};
  Interned argument_names_{interned_field::kAnnotationName};
  Interned texts_{interned_field::kAnnotationText};
};

}  // namespace

Result<> write_perfetto(const reports::SharedRecording& recording, const std::string& path,
                        Replace replace) {
  VRAM_TRY_ASSIGN(auto file, ExportFile::create(path, replace));
  PerfettoSink sink(file);
  sink.write_head(*recording);
  draw_timeline(*recording, sink);
  return file.commit();
}

}  // namespace vram::exports
