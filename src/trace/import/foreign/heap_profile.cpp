#include "base/bytes.hpp"
#include "trace/import/foreign/foreign.hpp"
#include "trace/import/foreign/protobuf.hpp"
#include "trace/profile_proto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::trace {
namespace {

using protozero::pbf_reader;

namespace proto = profile_proto;

// Real ones have a few MiB.
constexpr uint64_t kMaxBytes = uint64_t{256} << 20;
// A sample is a few bytes and may count any number of blocks.
constexpr uint64_t kMaxBlocks = uint64_t{1} << 20;
// Samples refer to locations by number, so those of a small file may have any number of frames.
constexpr uint64_t kMaxFrames = uint64_t{1} << 24;
// Of the file: messages and numbers are larger in memory than the 2 bytes and 1 byte that they take
// at least.
constexpr size_t kMaxMessages = size_t{1} << 22;
constexpr size_t kMaxNumbers = size_t{1} << 25;
constexpr uint64_t kMaxTotal = uint64_t{1} << 62;
// Each label may name another one.
constexpr size_t kMaxProfileDevices = 1024;
constexpr uint64_t kFirstAddress = uint64_t{1} << 40;

struct Sample {
  std::vector<uint64_t> locations;
  std::vector<int64_t> values;
  std::vector<std::pair<int64_t, int64_t>> labels;  // key, text
};

struct Location {
  std::vector<std::pair<uint64_t, int64_t>> lines;  // function, line; innermost first
};

struct TooManyParts {};

// profile.proto, as it is written. The texts refer to the bytes.
struct Profile {
  size_t messages = 0;
  size_t numbers = 0;

  // Throws TooManyParts.
  void count(size_t more_messages, size_t more_numbers) {
    messages += more_messages;
    numbers += more_numbers;
    if (messages > kMaxMessages || numbers > kMaxNumbers) throw TooManyParts();
  }

  std::vector<std::pair<int64_t, int64_t>> types;  // type, unit
  std::vector<std::string_view> samples;           // messages
  std::unordered_map<uint64_t, Location> locations;
  std::unordered_map<uint64_t, std::pair<int64_t, int64_t>> functions;  // name, file
  std::vector<std::string_view> texts;

  [[nodiscard]] std::string_view text(int64_t index) const {
    return index >= 0 && static_cast<uint64_t>(index) < texts.size()
               ? texts[static_cast<size_t>(index)]
               : std::string_view();
  }
};

// Two integers of a message, of its fields `first` and `second`.
std::pair<int64_t, int64_t> read_pair(pbf_reader message, uint32_t first, uint32_t second) {
  std::pair<int64_t, int64_t> pair;
  while (message.next()) {
    if (has_number(message, first))
      pair.first = message.get_int64();
    else if (has_number(message, second))
      pair.second = message.get_int64();
    else
      message.skip();
  }
  return pair;
}

// Numbers are packed, as writers do it, or come one at a time.
Sample read_sample(std::string_view bytes, Profile& profile) {
  Sample sample;
  pbf_reader message(bytes.data(), bytes.size());
  while (message.next()) {
    profile.count(0, 1);
    if (has_bytes(message, proto::sample::kLocations)) {
      for (const uint64_t id : message.get_packed_uint64()) {
        profile.count(0, 1);
        sample.locations.push_back(id);
      }
    } else if (has_number(message, proto::sample::kLocations)) {
      sample.locations.push_back(message.get_uint64());
    } else if (has_bytes(message, proto::sample::kValues)) {
      for (const int64_t value : message.get_packed_int64()) {
        profile.count(0, 1);
        sample.values.push_back(value);
      }
    } else if (has_number(message, proto::sample::kValues)) {
      sample.values.push_back(message.get_int64());
    } else if (has_bytes(message, proto::sample::kLabel)) {
      sample.labels.push_back(
          read_pair(message.get_message(), proto::label::kKey, proto::label::kText));
    } else {
      message.skip();
    }
  }
  return sample;
}

std::pair<uint64_t, Location> read_location(pbf_reader message, Profile& profile) {
  std::pair<uint64_t, Location> location;
  while (message.next()) {
    profile.count(0, 1);
    if (has_number(message, proto::location::kId)) {
      location.first = message.get_uint64();
    } else if (has_bytes(message, proto::location::kLine)) {
      const auto [function, line] =
          read_pair(message.get_message(), proto::line::kFunction, proto::line::kNumber);
      location.second.lines.emplace_back(static_cast<uint64_t>(function), line);
    } else {
      message.skip();
    }
  }
  return location;
}

void read_function(pbf_reader message, Profile& profile) {
  uint64_t id = 0;
  std::pair<int64_t, int64_t> names;
  while (message.next()) {
    if (has_number(message, proto::function::kId))
      id = message.get_uint64();
    else if (has_number(message, proto::function::kName))
      names.first = message.get_int64();
    else if (has_number(message, proto::function::kFile))
      names.second = message.get_int64();
    else
      message.skip();
  }
  profile.functions.try_emplace(id, names);
}

Profile read_profile(std::string_view bytes) {
  Profile profile;
  pbf_reader message(bytes.data(), bytes.size());
  while (message.next()) {
    profile.count(1, 0);
    if (has_bytes(message, proto::profile::kSampleType)) {
      profile.types.push_back(
          read_pair(message.get_message(), proto::value_type::kType, proto::value_type::kUnit));
    } else if (has_bytes(message, proto::profile::kSample)) {
      profile.samples.push_back(text_of(message));
    } else if (has_bytes(message, proto::profile::kLocation)) {
      profile.locations.insert(read_location(message.get_message(), profile));
    } else if (has_bytes(message, proto::profile::kFunction)) {
      read_function(message.get_message(), profile);
    } else if (has_bytes(message, proto::profile::kText)) {
      profile.texts.push_back(text_of(message));
    } else {
      message.skip();
    }
  }
  return profile;
}

// The memory in use, of profiles that also count what was allocated in all.
std::optional<size_t> find_type(const Profile& profile, std::string_view unit) {
  std::optional<size_t> found;
  for (size_t i = 0; i < profile.types.size(); ++i) {
    if (profile.text(profile.types[i].second) != unit) continue;
    if (!found || profile.text(profile.types[i].first).starts_with("inuse_")) found = i;
  }
  return found;
}

class Assembler {
 public:
  Assembler(const Profile& profile, size_t bytes_type, std::optional<size_t> count_type,
            Trace& trace)
      : profile_(profile), bytes_type_(bytes_type), count_type_(count_type), trace_(trace) {}

  [[nodiscard]] Result<> add(const Sample& sample);
  void finish();

 private:
  struct Device {
    PodVector<Block> blocks;
    uint64_t bytes = 0;
  };
  [[nodiscard]] Result<StackId> stack_of(const Sample& sample, std::string_view kind);

  const Profile& profile_;
  size_t bytes_type_;
  std::optional<size_t> count_type_;
  Trace& trace_;
  std::map<std::pair<DeviceKind, uint32_t>, Device> devices_;
  uint64_t total_ = 0;
  uint64_t blocks_ = 0;
  uint64_t merged_ = 0;
  uint64_t frames_ = 0;
};

// "cuda:1", "gpu:0", "TFRT_CPU_0"
std::pair<DeviceKind, uint32_t> device_named(std::string_view label) {
  const size_t last = label.find_last_not_of("0123456789");
  const std::string_view digits = label.substr(last == label.npos ? 0 : last + 1);
  uint32_t ordinal = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  const bool is_host = label.find("cpu") != label.npos || label.find("CPU") != label.npos;
  return {is_host ? DeviceKind::kHost : DeviceKind::kGpu, ordinal};
}

Result<StackId> Assembler::stack_of(const Sample& sample, std::string_view kind) {
  std::vector<FrameId> frames;
  StringTable& strings = trace_.tables.strings;
  // "executable": code in the device's memory, which has no line of its own.
  if (!kind.empty() && kind != "buffer")
    frames.push_back(trace_.tables.frames.intern({.function = strings.intern(kind)}));
  for (const uint64_t id : sample.locations) {
    const auto location = profile_.locations.find(id);
    if (location == profile_.locations.end()) continue;
    frames_ += location->second.lines.size() + 1;
    if (frames_ > kMaxFrames)
      return fail(Code::kTooLarge, "expected stacks of at most {} frames in all, found more",
                  format_count(kMaxFrames));
    for (const auto& [function, line] : location->second.lines) {
      const auto names = profile_.functions.find(function);
      if (names == profile_.functions.end()) continue;
      frames.push_back(trace_.tables.frames.intern(
          {.function = strings.intern(profile_.text(names->second.first)),
           .file = strings.intern(profile_.text(names->second.second)),
           .line = line > 0 && line <= INT32_MAX ? static_cast<uint32_t>(line) : 0}));
    }
  }
  return trace_.tables.stacks.intern(frames);
}

Result<> Assembler::add(const Sample& sample) {
  if (sample.values.size() != profile_.types.size())
    return fail(Code::kBadInput, "expected {} values in each sample, found {}",
                profile_.types.size(), sample.values.size());
  const int64_t bytes = sample.values[bytes_type_];
  int64_t count = count_type_ ? sample.values[*count_type_] : 1;
  if (bytes < 0 || static_cast<uint64_t>(bytes) > kMaxTotal - total_)
    return fail(Code::kBadInput, "expected sizes that add up to less than 4 EiB, found {} bytes",
                bytes);
  if (bytes == 0) return {};
  total_ += static_cast<uint64_t>(bytes);
  count = std::clamp<int64_t>(count, 1, bytes);
  if (static_cast<uint64_t>(count) > kMaxBlocks - std::min(blocks_, kMaxBlocks)) {
    ++merged_;
    count = 1;
  }
  blocks_ += static_cast<uint64_t>(count);
  std::string_view kind;
  std::pair<DeviceKind, uint32_t> where;
  for (const auto& [key, text] : sample.labels) {
    if (profile_.text(key) == "kind") kind = profile_.text(text);
    if (profile_.text(key) == "device") where = device_named(profile_.text(text));
  }
  Block block;
  block.state = BlockState::kAllocated;
  VRAM_TRY_ASSIGN(block.stack, stack_of(sample, kind));
  trace_.has_stacks |= block.stack != 0;
  Device& device = devices_[where];
  if (devices_.size() > kMaxProfileDevices)
    return fail(Code::kTooLarge, "expected a profile of at most {} devices, found more",
                format_count(kMaxProfileDevices));
  // The profile has the sum: blocks are of equal size, and the first also has the remainder.
  const auto each = static_cast<uint64_t>(bytes / count);
  for (int64_t i = 0; i < count; ++i) {
    block.size_bytes = each + (i == 0 ? static_cast<uint64_t>(bytes % count) : 0);
    block.requested_bytes = block.size_bytes;
    block.address = kFirstAddress + device.bytes;
    device.bytes += block.size_bytes;
    device.blocks.push_back(block);
  }
  return {};
}

void Assembler::finish() {
  for (auto& [where, device] : devices_) {
    DeviceTrace placed;
    std::tie(placed.kind, placed.ordinal) = where;
    placed.has_end_state = true;
    Segment segment;
    segment.address = kFirstAddress;
    segment.size_bytes = device.bytes;
    segment.block_count = static_cast<uint32_t>(device.blocks.size());
    segment.claimed_allocated_bytes = device.bytes;
    segment.claimed_active_bytes = device.bytes;
    segment.claimed_requested_bytes = device.bytes;
    placed.segments.push_back(segment);
    placed.blocks = std::move(device.blocks);
    trace_.devices.push_back(std::move(placed));
  }
  trace_.origin.notes.push_back({tr_later(
      "a profile is one moment: it has no events, no addresses and no reserved bytes; blocks of a "
      "stack are shown in equal sizes")});
  if (merged_ != 0)
    trace_.origin.notes.push_back(
        {tr_later("stacks with more blocks than vram lists one by one are shown as one block"),
         merged_});
}

Result<> assemble(Profile profile, Trace& trace) {
  const auto bytes_type = find_type(profile, "bytes");
  if (!bytes_type)
    return fail(Code::kUnsupported,
                "expected a pprof profile with a sample type in bytes, such as that of "
                "jax.profiler.save_device_memory_profile(), found none");
  Assembler assembler(profile, *bytes_type, find_type(profile, "count"), trace);
  for (const std::string_view sample : profile.samples)
    VRAM_TRY(assembler.add(read_sample(sample, profile)));
  assembler.finish();
  return {};
}

}  // namespace

Result<Trace> import_heap_profile(ByteSource& source, const OpenOptions& options) {
  VRAM_TRY_ASSIGN(const std::string bytes, read_all(source, options, kMaxBytes, "a profile"));
  if (source.is_truncated())
    return fail(Code::kBadInput, "the profile is truncated: its texts come last");
  Trace trace;
  try {
    VRAM_TRY(assemble(read_profile(bytes), trace));
  } catch (const protozero::exception& error) {
    return fail(Code::kBadInput, "expected a pprof profile, found damaged protobuf: {}",
                error.what());
  } catch (const TooManyParts&) {
    return fail(Code::kTooLarge, "expected at most {} messages and {} numbers in a profile",
                format_count(kMaxMessages), format_count(kMaxNumbers));
  }
  trace.origin.format = "pprof profile";
  return trace;
}

}  // namespace vram::trace
