#include "trace/vtrace/writer.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "trace/vtrace/events.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/meta.hpp"
#include "trace/vtrace/reader.hpp"
#include "trace/vtrace/state.hpp"
#include "trace/vtrace/tables.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace vram::trace {
namespace {

using Bytes = PodVector<uint8_t>;

// Fewer than a frame may hold: what is lost when a file is cut is at most a frame, and larger ones
// save little.
constexpr size_t kFrameEvents = 8 * 1024;
static_assert(kFrameEvents <= kMaxFrameEvents);

struct WrittenDevice {
  VtraceDevice identity;
  uint64_t written_events = 0;
  PodVector<Event> waiting;
};

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A recording converted twice came from what it first came from.
std::string_view first_format(std::string_view format) {
  if (!format.starts_with(kFormatPrefix)) return format;
  const size_t from = format.find(kFormatFrom);
  return from == format.npos ? std::string_view() : format.substr(from + kFormatFrom.size());
}

template <typename Item>
void set_times(FrameHeader& header, std::span<const Item> items) {
  if (items.empty()) return;
  const auto [first, last] =
      std::minmax_element(items.begin(), items.end(),
                          [](const Item& a, const Item& b) { return a.time_ns < b.time_ns; });
  header.min_time_ns = first->time_ns;
  header.max_time_ns = last->time_ns;
}

}  // namespace

struct VtraceWriter::State {
  State(VtraceSink& to, const Tables& of, int level) : sink(&to), tables(&of), compressor(level) {}

  [[nodiscard]] Result<> put_frame(FrameHeader header,
                                   std::span<const std::span<const uint8_t>> parts);
  [[nodiscard]] Result<> put_frame(const FrameHeader& header, std::span<const uint8_t> all) {
    return put_frame(header, std::span(&all, 1));
  }
  // Everything a frame of events, state or annotations relies on.
  [[nodiscard]] Result<> put_prerequisites();
  [[nodiscard]] Result<> put_meta();
  [[nodiscard]] Result<> put_events(DeviceIndex device, std::span<const Event> events);
  [[nodiscard]] Result<> put_waiting(DeviceIndex device);
  // Annotations, figures or marks.
  template <typename Item>
  [[nodiscard]] Result<> put_items(FrameType type, uint8_t flags, std::span<const Item> items,
                                   void (*encode)(std::span<const Item>, Bytes&));
  [[nodiscard]] Result<> put_index();

  VtraceSink* sink;
  const Tables* tables;
  Compressor compressor;
  EventEncoder encoder;
  MetaEncoder meta;
  TableSizes written_tables{.strings = 1, .frames = 1, .stacks = 1, .contexts = 1};
  std::vector<WrittenDevice> devices;
  std::vector<FrameHeader> index;
  uint64_t offset = 0;
  Bytes content;
  Bytes payload;
  Bytes frame;
  bool is_indexable = true;
  bool is_finished = false;
};

Result<> VtraceWriter::State::put_frame(FrameHeader header,
                                        std::span<const std::span<const uint8_t>> parts) {
  size_t content_bytes = 0;
  for (const auto& part : parts) content_bytes += part.size();
  if (content_bytes > kMaxContentBytes)
    return fail(Code::kTooLarge, "a frame of {} bytes; a .vtrace file holds frames up to {}",
                content_bytes, kMaxContentBytes);
  VRAM_TRY(compressor.compress(parts, payload));
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.content_bytes = static_cast<uint32_t>(content_bytes);
  const FrameHeaderBytes head = encode_frame_header(header);
  frame.truncate(0);
  frame.append(head.data(), head.size());
  frame.append(payload.data(), payload.size());
  VRAM_TRY(sink->write(as_text(frame.span())));
  if (index.size() >= kMaxIndexedFrames) is_indexable = false;
  if (is_indexable) index.push_back(header);
  offset += frame.size();
  return {};
}

Result<> VtraceWriter::State::put_meta() {
  if (meta.content().empty()) return {};
  auto done = put_frame(FrameHeader{.type = FrameType::kMeta}, meta.content());
  meta.clear();
  return done;
}

Result<> VtraceWriter::State::put_prerequisites() {
  VRAM_TRY(put_meta());
  for (;;) {
    VRAM_TRY(encode_tables(*tables, written_tables, content));
    if (content.empty()) return {};
    VRAM_TRY(put_frame(FrameHeader{.type = FrameType::kTables}, content.span()));
  }
}

Result<> VtraceWriter::State::put_events(DeviceIndex device, std::span<const Event> events) {
  VRAM_TRY(put_prerequisites());
  const auto parts = encoder.encode(events);
  const FrameHeader header{.type = FrameType::kEvents,
                           .device = device,
                           .item_count = static_cast<uint32_t>(events.size()),
                           .first_event = devices[device].written_events,
                           .min_time_ns = encoder.min_time_ns(),
                           .max_time_ns = encoder.max_time_ns()};
  VRAM_TRY(put_frame(header, parts));
  devices[device].written_events += events.size();
  return {};
}

Result<> VtraceWriter::State::put_waiting(DeviceIndex device) {
  PodVector<Event>& waiting = devices[device].waiting;
  if (waiting.empty()) return {};
  auto done = put_events(device, waiting.span());
  waiting.truncate(0);
  return done;
}

Result<> VtraceWriter::State::put_index() {
  const uint64_t index_offset = offset;
  if (!is_indexable) index.clear();  // an empty index says: finished, but scan for the frames
  encode_index(index, content);
  VRAM_TRY(put_frame(FrameHeader{.type = FrameType::kIndex}, content.span()));
  return sink->write(as_text(encode_trailer(index_offset)));
}

VtraceWriter::VtraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
VtraceWriter::VtraceWriter(VtraceWriter&&) noexcept = default;
VtraceWriter& VtraceWriter::operator=(VtraceWriter&&) noexcept = default;
VtraceWriter::~VtraceWriter() = default;

Result<VtraceWriter> VtraceWriter::open(VtraceSink& sink, const Tables& tables,
                                        const VtraceOptions& options) {
  auto state = std::make_unique<State>(sink, tables, options.compression_level);
  const FileHeaderBytes header =
      encode_file_header({.has_time = options.has_time, .has_pools = options.has_pools});
  VRAM_TRY(sink.write(as_text(header)));
  state->offset = header.size();
  return VtraceWriter(std::move(state));
}

Result<DeviceIndex> VtraceWriter::add_device(DeviceKind kind, uint32_t ordinal) {
  auto& devices = state_->devices;
  if (devices.size() >= kMaxDevices)
    return fail(Code::kTooLarge, "a .vtrace file holds at most {} devices", kMaxDevices);
  for (const WrittenDevice& device : devices)
    if (device.identity.kind == kind && device.identity.ordinal == ordinal)
      return fail(Code::kBadInput, "device {} is in the recording twice", ordinal);
  state_->meta.put_device(kind, ordinal);
  devices.emplace_back().identity = {.kind = kind, .ordinal = ordinal};
  return static_cast<DeviceIndex>(devices.size() - 1);
}

void VtraceWriter::add_setting(const Setting& setting) { state_->meta.put_setting(setting); }
void VtraceWriter::add_about(const Setting& about) { state_->meta.put_about(about); }
void VtraceWriter::add_note(const Note& note) { state_->meta.put_note(note); }

void VtraceWriter::set_ring_overflowed(DeviceIndex device) {
  VRAM_CHECK(device < state_->devices.size());
  bool& is_set = state_->devices[device].identity.ring_overflowed;
  if (!is_set) state_->meta.put_ring_overflowed(device);
  is_set = true;
}

void VtraceWriter::set_origin(const Origin& origin) {
  if (const auto format = first_format(origin.format); !format.empty())
    state_->meta.put_origin_format(format);
  if (origin.truncated_at_byte) state_->meta.put_origin_truncated(*origin.truncated_at_byte);
  for (const Note& note : origin.notes) state_->meta.put_note(note);
}

Result<> VtraceWriter::append(DeviceIndex device, std::span<const Event> events) {
  VRAM_CHECK(device < state_->devices.size() && !state_->is_finished);
  PodVector<Event>& waiting = state_->devices[device].waiting;
  while (!events.empty()) {
    if (waiting.empty() && events.size() >= kFrameEvents) {
      VRAM_TRY(state_->put_events(device, events.first(kFrameEvents)));
      events = events.subspan(kFrameEvents);
      continue;
    }
    const size_t count = std::min(events.size(), kFrameEvents - waiting.size());
    waiting.append(events.data(), count);
    events = events.subspan(count);
    if (waiting.size() < kFrameEvents) continue;
    VRAM_TRY(state_->put_waiting(device));
  }
  return {};
}

template <typename Item>
Result<> VtraceWriter::State::put_items(FrameType type, uint8_t flags, std::span<const Item> items,
                                        void (*encode)(std::span<const Item>, Bytes&)) {
  VRAM_CHECK(!is_finished);
  VRAM_TRY(put_prerequisites());
  while (!items.empty()) {
    const auto part = items.first(std::min(items.size(), kMaxFrameItems));
    encode(part, content);
    FrameHeader header{
        .type = type, .flags = flags, .item_count = static_cast<uint32_t>(part.size())};
    set_times(header, part);
    VRAM_TRY(put_frame(header, content.span()));
    items = items.subspan(part.size());
  }
  return {};
}

Result<> VtraceWriter::append_annotations(std::span<const Annotation> annotations) {
  return state_->put_items(FrameType::kAnnotations, 0, annotations, &encode_annotations);
}

Result<> VtraceWriter::append_figures(std::span<const Figure> figures) {
  return state_->put_items(FrameType::kFigures, kFrameSkippable, figures, &encode_figures);
}

Result<> VtraceWriter::append_marks(std::span<const Mark> marks) {
  return state_->put_items(FrameType::kMarks, kFrameSkippable, marks, &encode_marks);
}

Result<> VtraceWriter::append_state(DeviceIndex device, std::span<const Segment> segments,
                                    std::span<const Block> blocks) {
  VRAM_CHECK(device < state_->devices.size() && !state_->is_finished);
  VRAM_TRY(state_->put_waiting(device));
  VRAM_TRY(state_->put_prerequisites());
  for (bool is_first = true; is_first || !segments.empty() || !blocks.empty(); is_first = false) {
    StatePiece piece;
    piece.is_first = is_first;
    piece.segments = segments.first(std::min(segments.size(), kMaxFrameItems));
    piece.blocks = blocks.first(std::min(blocks.size(), kMaxFrameItems));
    segments = segments.subspan(piece.segments.size());
    blocks = blocks.subspan(piece.blocks.size());
    piece.is_last = segments.empty() && blocks.empty();
    encode_state(piece, state_->content);
    const FrameHeader header{
        .type = FrameType::kState,
        .device = device,
        .item_count = static_cast<uint32_t>(piece.segments.size() + piece.blocks.size()),
        .first_event = state_->devices[device].written_events};
    VRAM_TRY(state_->put_frame(header, state_->content.span()));
  }
  return {};
}

Result<> VtraceWriter::flush() {
  for (size_t i = 0; i < state_->devices.size(); ++i)
    if (auto done = state_->put_waiting(static_cast<DeviceIndex>(i)); !done) return done;
  return state_->put_prerequisites();
}

Result<> VtraceWriter::finish() {
  VRAM_TRY(flush());
  state_->is_finished = true;
  return state_->put_index();
}

Result<> VtraceWriter::complete_copy(VtraceSink& copy, std::span<const Setting> about) {
  VtraceSink* const own = std::exchange(state_->sink, &copy);
  const uint64_t offset = state_->offset;
  const size_t frames = state_->index.size();
  for (const Setting& each : about) state_->meta.put_about(each);
  auto done = state_->put_meta();
  if (done) done = state_->put_index();
  state_->sink = own;
  state_->offset = offset;
  state_->index.resize(std::min(frames, state_->index.size()));
  return done;
}

// A whole Trace into a file: what `vram convert` does.

namespace {

class FileSink final : public VtraceSink {
 public:
  explicit FileSink(AtomicFile& file) : file_(file) {}
  [[nodiscard]] Result<> write(std::string_view bytes) override { return file_.write(bytes); }

 private:
  AtomicFile& file_;
};

Result<> write_device(const Trace& trace, const DeviceTrace& device, VtraceWriter& writer) {
  VRAM_TRY_ASSIGN(const auto index, writer.add_device(device.kind, device.ordinal));
  if (device.ring_overflowed) writer.set_ring_overflowed(index);
  VRAM_TRY(writer.append(index, trace.events_of(device)));
  if (!device.has_end_state) return {};
  return writer.append_state(index, device.segments, device.blocks.span());
}

}  // namespace

Result<> write_vtrace(const Trace& trace, VtraceSink& sink) {
  VRAM_TRY_ASSIGN(auto writer,
                  VtraceWriter::open(sink, trace.tables,
                                     {.has_time = trace.has_time, .has_pools = trace.has_pools}));
  writer.set_origin(trace.origin);
  for (const Setting& setting : trace.settings) writer.add_setting(setting);
  for (const Setting& about : trace.about) writer.add_about(about);
  for (const DeviceTrace& device : trace.devices)
    if (auto done = write_device(trace, device, writer); !done) return done;
  VRAM_TRY(writer.append_annotations(trace.annotations));
  VRAM_TRY(writer.append_figures(trace.figures));
  VRAM_TRY(writer.append_marks(trace.marks));
  return writer.finish();
}

Result<> write_vtrace(const Trace& trace, const std::string& path, Replace replace) {
  VRAM_TRY_ASSIGN(auto file, AtomicFile::create(path, replace));
  FileSink sink(file);
  VRAM_TRY(write_vtrace(trace, sink));
  return file.commit();
}

}  // namespace vram::trace
