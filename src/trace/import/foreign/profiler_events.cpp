#include "trace/import/foreign/profiler_events.hpp"

#include "trace/import/foreign/changes.hpp"
#include "trace/import/rows/row.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <tuple>

namespace vram::trace {
namespace {

// Enough for any program; a hostile file may nest calls for each of its events.
constexpr size_t kMaxOpenCalls = 256;
constexpr int64_t kMaxDevice = INT8_MAX;  // c10::DeviceIndex
// What a new thread and a new text take besides their members.
constexpr uint64_t kEntryBytes = 128;
// Microseconds whose nanoseconds fit into a time of the trace.
constexpr double kMaxTimeUs = 4e15;

// Operators that do nothing but get memory for the one that called them.
constexpr std::array<std::string_view, 8> kAllocators = {
    "aten::empty",   "aten::empty_strided",     "aten::empty_like",      "aten::new_empty",
    "aten::resize_", "aten::new_empty_strided", "aten::empty_quantized", "aten::resize_as_"};

bool is_allocator(std::string_view name) {
  return std::ranges::find(kAllocators, name) != kAllocators.end();
}

// Addresses of objects differ from call to call: "<built-in method randn of type object at 0x7f…>".
std::string_view without_address(std::string_view name) {
  const size_t at = name.find(" at 0x");
  return at == name.npos ? name : name.substr(0, at);
}

}  // namespace

uint32_t ProfilerEvents::thread_of(const ProfilerEvent& event) {
  const auto [entry, is_new] =
      threads_.try_emplace({event.process, event.thread}, static_cast<uint32_t>(calls_.size()));
  if (is_new) {
    calls_.emplace_back();
    memory_bytes_ += kEntryBytes;
  }
  return entry->second;
}

StringId ProfilerEvents::intern(std::string_view text) {
  const size_t before = trace_.tables.strings.size();
  const StringId id = trace_.tables.strings.intern(text);
  if (trace_.tables.strings.size() != before) memory_bytes_ += text.size() + kEntryBytes;
  return id;
}

// "train.py(12): forward", or the name of an operator.
FrameId ProfilerEvents::frame_of(std::string_view name, bool is_python) {
  Frame frame;
  const size_t end = is_python ? name.find("): ") : name.npos;
  const size_t begin = end == name.npos ? end : name.rfind('(', end);
  if (begin != name.npos) {
    std::from_chars(name.data() + begin + 1, name.data() + end, frame.line);
    frame.file = intern(name.substr(0, begin));
    name.remove_prefix(end + 3);
  }
  frame.function = intern(without_address(name));
  return trace_.tables.frames.intern(frame);
}

void ProfilerEvents::add_change(const ProfilerEvent& event, uint32_t thread) {
  const bool is_host = event.device_type == 0;
  const int64_t device = is_host ? 0 : event.device;
  if (event.bytes == 0 || event.bytes == INT64_MIN || event.address == 0 || device < 0 ||
      device > kMaxDevice) {
    ++without_use_;
    return;
  }
  changes_.push_back({.time_us = event.begin_us,
                      .bytes = event.bytes,
                      .address = event.address,
                      .thread = thread,
                      .device = static_cast<uint32_t>(device),
                      .is_host = is_host});
  memory_bytes_ += sizeof(Change) + sizeof(size_t) + sizeof(MemoryChange) + 2 * sizeof(Event);
}

void ProfilerEvents::add(const ProfilerEvent& event) {
  const bool is_timed = std::abs(event.begin_us) < kMaxTimeUs && event.duration_us >= 0 &&
                        event.duration_us < kMaxTimeUs;
  const bool is_memory = event.phase == 'i' && event.name == "[memory]";
  if (!is_timed) {
    without_use_ += is_memory ? 1 : 0;
    return;
  }
  if (is_memory) return add_change(event, thread_of(event));
  if (event.phase != 'X') return;
  const double end_us = event.begin_us + event.duration_us;
  const bool is_python = event.category == "python_function";
  if (is_python || event.category == "cpu_op") {
    const FrameId frame = frame_of(event.name, is_python);
    calls_[thread_of(event)].push_back({event.begin_us, end_us, frame});
    memory_bytes_ += sizeof(Call);
  } else if (event.category == "user_annotation") {
    const StringId name = intern(event.name);
    regions_.push_back({event.begin_us, name, true});
    regions_.push_back({end_us, name, false});
    memory_bytes_ += 2 * (sizeof(Region) + sizeof(Annotation));
  }
}

// Calls of a thread nest: those around a moment are what began before it and has not ended.
void ProfilerEvents::find_stacks(std::vector<Call>& calls, const std::vector<size_t>& changes) {
  std::ranges::stable_sort(calls, {},
                           [](const Call& c) { return std::tuple(c.begin_us, -c.end_us); });
  std::vector<Call> open;
  std::vector<FrameId> frames;
  auto next = calls.begin();
  for (const size_t index : changes) {
    Change& change = changes_[index];
    for (; next != calls.end() && next->begin_us <= change.time_us; ++next) {
      while (!open.empty() && open.back().end_us <= next->begin_us) open.pop_back();
      open.push_back(*next);
    }
    while (!open.empty() && open.back().end_us < change.time_us) open.pop_back();
    frames.clear();
    const size_t first = open.size() > kMaxOpenCalls ? open.size() - kMaxOpenCalls : 0;
    for (size_t i = open.size(); i > first; --i) {
      const FrameId frame = open[i - 1].frame;
      const auto name = trace_.tables.strings[trace_.tables.frames[frame].function];
      if (open[i - 1].end_us < change.time_us || (frames.empty() && i > 1 && is_allocator(name)))
        continue;
      frames.push_back(frame);
    }
    const size_t before = trace_.tables.stacks.size();
    change.stack = trace_.tables.stacks.intern(frames);
    if (trace_.tables.stacks.size() != before)
      memory_bytes_ += frames.size() * sizeof(FrameId) + kEntryBytes;
    if (is_full()) return;
    trace_.has_stacks |= change.stack != 0;
  }
}

int64_t ProfilerEvents::time_ns(double time_us) const {
  constexpr double kThousand = 1000;
  return static_cast<int64_t>(static_cast<uint64_t>(base_ns_) +
                              static_cast<uint64_t>(std::llround(time_us * kThousand)));
}

void ProfilerEvents::place_events() {
  std::vector<MemoryChange> placed;
  placed.reserve(changes_.size());
  for (const Change& change : changes_) {
    const auto bytes = static_cast<uint64_t>(std::abs(change.bytes));
    placed.push_back({.time_ns = time_ns(change.time_us),
                      .address = change.address,
                      .requested_bytes = bytes,
                      .block_bytes = bytes,
                      .stack = change.stack,
                      .device = change.device,
                      .kind = change.is_host ? DeviceKind::kHost : DeviceKind::kGpu,
                      .is_alloc = change.bytes > 0});
  }
  place_changes(std::move(placed), trace_);
}

void ProfilerEvents::place_annotations(uint32_t device) {
  std::ranges::stable_sort(regions_, {}, &Region::time_us);
  for (const Region& region : regions_) {
    Annotation annotation;
    annotation.time_ns = time_ns(region.time_us);
    annotation.name = region.name;
    annotation.device = device;
    annotation.is_begin = region.is_begin;
    trace_.annotations.push_back(annotation);
  }
}

Result<> ProfilerEvents::finish() {
  if (is_full()) return tl::unexpected(rows::beyond_memory(max_memory_bytes_));
  if (changes_.empty())
    return fail(Code::kBadInput,
                "the trace has no [memory] events of torch.profiler: record it with "
                "profile_memory=True");
  const auto is_gpu = [](const Change& change) { return !change.is_host; };
  if (std::ranges::any_of(changes_, is_gpu)) {
    const uint64_t left_out = std::erase_if(changes_, [](const Change& c) { return c.is_host; });
    if (left_out != 0)
      trace_.origin.notes.push_back({tr_later("events of host memory left out"), left_out});
  } else {
    trace_.origin.notes.push_back({tr_later(
        "only host memory was profiled, that of PyTorch's CPU allocator; reports call this device "
        "pinned host memory")});
  }
  std::ranges::stable_sort(changes_, {}, &Change::time_us);
  std::vector<std::vector<size_t>> changes_of(calls_.size());
  for (size_t i = 0; i < changes_.size(); ++i) changes_of[changes_[i].thread].push_back(i);
  for (size_t thread = 0; thread < calls_.size(); ++thread)
    find_stacks(calls_[thread], changes_of[thread]);
  if (is_full()) return tl::unexpected(rows::beyond_memory(max_memory_bytes_));
  place_events();
  place_annotations(trace_.devices.front().ordinal);
  trace_.has_time = true;
  if (without_use_ != 0)
    trace_.origin.notes.push_back(
        {tr_later("[memory] events without bytes or place left out"), without_use_});
  trace_.origin.notes.push_back({tr_later(
      "torch.profiler records no segments, streams or pools: reserved bytes are those of the "
      "blocks")});
  return {};
}

}  // namespace vram::trace
