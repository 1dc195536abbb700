#include "trace/vtrace/reader.hpp"

#include "base/bytes.hpp"
#include "base/memory.hpp"
#include "base/result.hpp"
#include "trace/vtrace/events.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/meta.hpp"
#include "trace/vtrace/state.hpp"
#include "trace/vtrace/tables.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace vram::trace {
namespace {

// What the frames of one device have said so far.
struct Gathered {
  PodVector<Event> events;
  DecodedState state;
  uint64_t state_after = 0;  // events before the state
};

// The order Trace promises. Files of ours have it; where it is missing, equal addresses stay told
// apart by their blocks.
void sort_by_address(std::vector<Segment>& segments) {
  const auto by_address = [](const Segment& a, const Segment& b) { return a.address < b.address; };
  if (std::is_sorted(segments.begin(), segments.end(), by_address)) return;
  std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
    return std::pair(a.address, a.first_block) < std::pair(b.address, b.first_block);
  });
}

class Assembly {
 public:
  Assembly(const VtraceSource& source, const OpenOptions& options)
      : source_(source), options_(options), frames_(source) {}

  [[nodiscard]] Result<> read();
  [[nodiscard]] Trace take();

 private:
  [[nodiscard]] Result<> read_frame(const FrameHeader& header);
  [[nodiscard]] Result<> apply(const FrameHeader& header, std::span<const uint8_t> content);
  [[nodiscard]] Result<> apply_events(const FrameHeader& header, std::span<const uint8_t> content);
  [[nodiscard]] Result<> apply_state(const FrameHeader& header, std::span<const uint8_t> content);
  [[nodiscard]] Result<> account(const FrameHeader& header);
  [[nodiscard]] Result<> check_end();
  void note_lost(const Error& error);
  void take_device(size_t which);

  const VtraceSource& source_;
  const OpenOptions& options_;
  FrameReader frames_;
  EventDecoder decoder_;
  Trace trace_;
  std::vector<VtraceDevice> devices_;
  std::vector<Gathered> gathered_;
  std::optional<uint64_t> index_offset_;
  uint64_t offset_ = 0;  // of the frame being read
  uint64_t frame_count_ = 0;
  uint64_t decompressed_bytes_ = 0;
};

Result<> Assembly::read() {
  VRAM_TRY_ASSIGN(const auto file_header, frames_.file_header());
  trace_.has_time = file_header.has_time;
  trace_.has_pools = file_header.has_pools;
  offset_ = kFileHeaderBytes;
  Result<> outcome;
  while (outcome && !index_offset_) {
    const auto header = frames_.header_at(offset_);
    outcome = header ? read_frame(*header) : Result<>(tl::unexpected(header.error()));
  }
  if (outcome) outcome = check_end();
  if (outcome) return {};
  if (outcome.error().code != Code::kBadInput && outcome.error().code != Code::kUnsupported)
    return outcome;
  note_lost(outcome.error());
  return {};
}

Result<> Assembly::read_frame(const FrameHeader& header) {
  VRAM_TRY(account(header));
  VRAM_TRY_ASSIGN(const auto content, frames_.content_of(offset_, header));
  VRAM_TRY(apply(header, content));
  offset_ += kFrameHeaderBytes + header.payload_bytes;
  ++frame_count_;
  if (options_.progress) options_.progress(offset_, source_.size_bytes());
  return {};
}

// Small files that decompress to more than anybody has memory for are refused before they do.
Result<> Assembly::account(const FrameHeader& header) {
  decompressed_bytes_ += header.content_bytes;
  if (header.type == FrameType::kEvents) decompressed_bytes_ += header.item_count * sizeof(Event);
  const uint64_t memory_bytes = default_memory_limit_bytes();  // all of it is held
  if (decompressed_bytes_ <= std::min(options_.max_decompressed_bytes, memory_bytes)) return {};
  if (decompressed_bytes_ > memory_bytes) {
    return fail(Code::kTooLarge,
                "at byte {} the file needs more than {} of memory, which this machine can spare: "
                "read it on a machine with more",
                offset_, format_bytes(memory_bytes));
  }
  return fail(
      Code::kTooLarge,
      "at byte {} the file decompresses to more than the limit of {} bytes: to read it, set "
      "a larger one (--max-size, in Python max_size=)",
      offset_, options_.max_decompressed_bytes);
}

Result<> Assembly::apply(const FrameHeader& header, std::span<const uint8_t> content) {
  switch (header.type) {
    case FrameType::kMeta: {
      auto done = decode_meta(content, trace_, devices_);
      gathered_.resize(devices_.size());
      return done;
    }
    case FrameType::kTables:
      return decode_tables(content, trace_.tables);
    case FrameType::kEvents:
      return apply_events(header, content);
    case FrameType::kState:
      return apply_state(header, content);
    case FrameType::kAnnotations:
      return decode_annotations(content, sizes_of(trace_.tables), trace_.annotations);
    case FrameType::kFigures:
      return decode_figures(content, sizes_of(trace_.tables), trace_.figures);
    case FrameType::kMarks:
      return decode_marks(content, sizes_of(trace_.tables), trace_.marks);
    case FrameType::kIndex:
      index_offset_ = offset_;
      return {};
  }
  if ((header.flags & kFrameSkippable) != 0) return {};
  return fail(Code::kUnsupported,
              "a frame of type {}, which this vram does not know: use a newer one",
              static_cast<unsigned>(header.type));
}

Result<> Assembly::apply_events(const FrameHeader& header, std::span<const uint8_t> content) {
  if (header.device >= devices_.size())
    return fail(Code::kBadInput, "events of device {}, which the file does not declare",
                header.device);
  Gathered& device = gathered_[header.device];
  if (header.first_event != device.events.size())
    return fail(Code::kBadInput, "expected event {} of its device, found event {}",
                device.events.size(), header.first_event);
  auto done = decoder_.decode(header, content, sizes_of(trace_.tables), device.events);
  if (done) trace_.has_stacks |= decoder_.saw_stack();
  return done;
}

Result<> Assembly::apply_state(const FrameHeader& header, std::span<const uint8_t> content) {
  if (header.device >= devices_.size() ||
      header.first_event != gathered_[header.device].events.size())
    return fail(Code::kBadInput, "a state of device {} after {} events, which were not there",
                header.device, header.first_event);
  Gathered& device = gathered_[header.device];
  device.state_after = header.first_event;
  return decode_state(content, sizes_of(trace_.tables), device.state);
}

Result<> Assembly::check_end() {
  VRAM_TRY_ASSIGN(const auto named, frames_.trailer_at(offset_));
  if (named != *index_offset_)
    return fail(Code::kBadInput, "the end mark names byte {} for the index, which is at byte {}",
                named, *index_offset_);
  offset_ += kTrailerBytes;
  if (offset_ != source_.size_bytes())
    return fail(Code::kBadInput, "the file continues after its end mark");
  return {};
}

void Assembly::note_lost(const Error& error) {
  trace_.origin.truncated_at_byte = offset_;
  if (offset_ == source_.size_bytes()) {
    trace_.origin.notes.push_back(
        {trf("the file ends at byte {} without its index: its recorder was stopped before it "
             "was done; all {} frames were kept",
             offset_, frame_count_)});
    return;
  }
  trace_.origin.notes.push_back(
      {trf("no whole frame at byte {} ({}); the {} frames before it were kept", offset_,
           error.message, frame_count_)});
}

void Assembly::take_device(size_t which) {
  Gathered& from = gathered_[which];
  const bool has_state = from.state.is_complete && from.state_after == from.events.size();
  if (from.events.empty() && !(has_state && !from.state.segments.empty())) return;
  DeviceTrace device;
  device.ordinal = devices_[which].ordinal;
  device.kind = devices_[which].kind;
  device.ring_overflowed = devices_[which].ring_overflowed;
  device.first_event = trace_.events.size();
  device.event_count = from.events.size();
  device.has_end_state = has_state;
  if (has_state) {
    device.segments = std::move(from.state.segments);
    device.blocks = std::move(from.state.blocks);
    sort_by_address(device.segments);
  }
  trace_.has_stacks |= std::any_of(device.blocks.begin(), device.blocks.end(),
                                   [](const Block& block) { return block.stack != 0; });
  if (trace_.events.empty())
    trace_.events = std::move(from.events);
  else
    trace_.events.append(from.events.data(), from.events.size());
  from = {};
  trace_.devices.push_back(std::move(device));
}

Trace Assembly::take() {
  std::vector<size_t> order(devices_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(devices_[a].kind, devices_[a].ordinal) <
           std::pair(devices_[b].kind, devices_[b].ordinal);
  });
  for (const size_t which : order) take_device(which);
  return std::move(trace_);
}

}  // namespace

bool is_vtrace(std::string_view first_bytes) { return first_bytes.starts_with(kVtraceStart); }

Result<Trace> read_vtrace(const VtraceSource& source, const std::string& path,
                          const OpenOptions& options) {
  Assembly assembly(source, options);
  if (auto done = assembly.read(); !done)
    return fail(done.error().code, "{}: {}", path, done.error().message);
  Trace trace = assembly.take();
  const std::string from = trace.origin.format;
  trace.origin.path = path;
  trace.origin.format =
      fmt::format("{}{}{}{}", kFormatPrefix, kVtraceVersion, from.empty() ? "" : kFormatFrom, from);
  trace.origin.file_bytes = source.size_bytes();
  return trace;
}

}  // namespace vram::trace
