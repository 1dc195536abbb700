#include "trace/import/rows/row.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "trace/export/export.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

namespace vram::trace::rows {
namespace {

constexpr size_t kMaxDevices = 1024;

EventKind kind_of(std::string_view action) {
  for (auto kind = EventKind::kAlloc; kind < EventKind::kOther;
       kind = static_cast<EventKind>(static_cast<uint8_t>(kind) + 1)) {
    if (to_string(kind) == action) return kind;
  }
  return EventKind::kOther;
}

// Where ":12" of "train.py:12 forward" begins; npos without a line.
size_t find_line(std::string_view frame) {
  for (size_t colon = frame.find(':'); colon != frame.npos; colon = frame.find(':', colon + 1)) {
    const size_t after = std::min(frame.find_first_not_of("0123456789", colon + 1), frame.size());
    if (after > colon + 1 && (after == frame.size() || frame[after] == ' ')) return colon;
  }
  return frame.npos;
}

}  // namespace

template <typename Number>
Result<Number> parse_digits(std::string_view text, std::string_view digits, int base,
                            std::string_view expected) {
  Number number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number, base);
  if (error == std::errc() && stop == end) return number;
  return fail(Code::kBadInput, "expected {}, found '{}'", expected, printable(text.substr(0, 40)));
}
template Result<uint32_t> parse_digits(std::string_view, std::string_view, int, std::string_view);
template Result<uint64_t> parse_digits(std::string_view, std::string_view, int, std::string_view);
template Result<int64_t> parse_digits(std::string_view, std::string_view, int, std::string_view);

template <typename Number>
Result<Number> parse_whole(std::string_view text) {
  return parse_digits<Number>(text, text, 10, tr("a whole number"));
}
template Result<uint32_t> parse_whole(std::string_view);
template Result<uint64_t> parse_whole(std::string_view);
template Result<int64_t> parse_whole(std::string_view);

Result<uint64_t> parse_address(std::string_view text) {
  constexpr std::string_view kHex = "0x";
  return parse_digits<uint64_t>(text, text.starts_with(kHex) ? text.substr(kHex.size()) : "", 16,
                                tr("an address such as 0x7f1ca0000000"));
}

Result<DeviceKind> parse_device_kind(std::string_view text) {
  for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kHost}) {
    if (text == to_string(kind)) return kind;
  }
  return fail(Code::kBadInput, "expected gpu or host, found '{}'", printable(text.substr(0, 40)));
}

Error beyond_memory(uint64_t max_memory_bytes) {
  return {Code::kTooLarge,
          trf("the file needs more than {} of memory, which this machine can spare: read it on a "
              "machine with more",
              format_bytes(max_memory_bytes))};
}

Result<> Collector::add(const Row& row) {
  VRAM_TRY_ASSIGN(const auto device, device_of(row));
  Tables& tables = trace_.tables;
  Event event;
  event.kind = kind_of(row.action);
  event.time_ns = row.time_ns.value_or(0);
  event.address = row.address;
  event.size_bytes = row.size_bytes;
  event.stack = stack_of(row.stack);
  event.context = context_of(row);
  event.stream = tables.streams.intern(row.stream);
  event.pool = row.pool ? tables.pools.intern(*row.pool) : kUnknownPool;
  trace_.has_time |= row.time_ns.has_value();
  trace_.has_stacks |= event.stack != 0;
  trace_.has_pools |= row.pool.has_value();
  device->events.push_back(event);
  memory_bytes_ += sizeof(Event);
  if (memory_bytes_ <= max_memory_bytes_) return {};
  return tl::unexpected(beyond_memory(max_memory_bytes_));
}

void Collector::finish() {
  std::ranges::sort(devices_, {},
                    [](const Device& device) { return std::tuple(device.kind, device.ordinal); });
  for (Device& device : devices_) {
    DeviceTrace placed;
    placed.kind = device.kind;
    placed.ordinal = device.ordinal;
    placed.first_event = trace_.events.size();
    placed.event_count = device.events.size();
    if (trace_.events.empty())
      trace_.events = std::move(device.events);
    else
      trace_.events.append(device.events.data(), device.events.size());
    trace_.devices.push_back(std::move(placed));
  }
}

Result<Collector::Device*> Collector::device_of(const Row& row) {
  const auto is_it = [&](const Device& device) {
    return device.ordinal == row.device && device.kind == row.device_kind;
  };
  if (last_device_ < devices_.size() && is_it(devices_[last_device_]))
    return &devices_[last_device_];
  const auto found = std::ranges::find_if(devices_, is_it);
  last_device_ = static_cast<size_t>(found - devices_.begin());
  if (found != devices_.end()) return &*found;
  if (devices_.size() == kMaxDevices)
    return fail(Code::kBadInput, "expected at most {} devices, found more", kMaxDevices);
  devices_.push_back({row.device_kind, row.device, {}});
  return &devices_.back();
}

StackId Collector::stack_of(const std::string& frames) {
  if (frames.empty()) return 0;
  if (frames == last_frames_) return last_stack_;
  std::vector<FrameId> ids;
  for (size_t begin = 0; begin < frames.size();) {
    const size_t end = frames.find(kFrameEnd, begin);
    ids.push_back(frame_of(std::string_view(frames).substr(begin, end - begin)));
    begin = end + 1;
  }
  last_frames_ = frames;
  return last_stack_ = trace_.tables.stacks.intern(ids);
}

FrameId Collector::frame_of(std::string_view text) {
  const auto [known, is_new] = frames_.try_emplace(std::string(text), 0);
  if (!is_new) return known->second;
  memory_bytes_ += 2 * text.size();  // as a key, and in the trace
  const size_t colon = find_line(text);
  const size_t file_end = std::min({colon, text.find(' '), text.size()});
  std::string_view file = text.substr(0, colon == text.npos ? file_end : colon);
  std::string_view rest = text.substr(file.size());
  Frame frame;
  if (colon != text.npos) {
    rest.remove_prefix(1);
    const size_t digits = std::min(rest.find(' '), rest.size());
    frame.line = parse_whole<uint32_t>(rest.substr(0, digits)).value_or(0);
    rest.remove_prefix(digits);
  }
  if (!rest.empty()) rest.remove_prefix(1);
  if (file == "?") file = {};
  frame.file = trace_.tables.strings.intern(file);
  frame.function = trace_.tables.strings.intern(rest);
  return known->second = trace_.tables.frames.intern(frame);
}

ContextId Collector::context_of(const Row& row) {
  if (row.compile_id.empty() && row.user_metadata.empty() && row.category.empty()) return 0;
  StringTable& strings = trace_.tables.strings;
  const size_t known = trace_.tables.contexts.size();
  const ContextId context =
      trace_.tables.contexts.intern({.compile_id = strings.intern(row.compile_id),
                                     .user_metadata = strings.intern(row.user_metadata),
                                     .category = strings.intern(row.category),
                                     .forward_stack = 0});
  if (trace_.tables.contexts.size() > known)
    memory_bytes_ += row.compile_id.size() + row.user_metadata.size() + row.category.size();
  return context;
}

}  // namespace vram::trace::rows
