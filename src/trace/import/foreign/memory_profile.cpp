// The JSON form of memory_profile.proto: for each allocator, a list of changes (a sample of them),
// and the numbers of those whose memory was held at the peak. Integers of 64 bits are texts.
#include "base/bytes.hpp"
#include "base/json.hpp"
#include "trace/import/foreign/changes.hpp"
#include "trace/import/foreign/foreign.hpp"
#include "trace/import/foreign/protobuf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace vram::trace {
namespace {

// The tool itself keeps a thousand changes; real ones have a few MiB.
constexpr uint64_t kMaxMemoryProfileBytes = uint64_t{64} << 20;
constexpr size_t kMaxProfileDepth = 16;
constexpr size_t kMaxProfileValues = size_t{1} << 22;
// Of an object, such as that of the allocators: looking up one of N members takes N steps.
constexpr size_t kMaxProfileMembers = 1024;
constexpr uint64_t kMaxListedBlocks = uint64_t{1} << 20;
constexpr uint64_t kMaxProfileTotal = uint64_t{1} << 62;
constexpr uint64_t kProfileAddress = uint64_t{1} << 40;

const Json& member(const Json& object, std::string_view name) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

// A number, or a text of one; 0 if it is neither.
int64_t number_in(const Json& object, std::string_view name) {
  const Json& value = member(object, name);
  if (value.is_number_integer()) return value.get<int64_t>();
  int64_t number = 0;
  if (const auto* text = value.get_ptr<const Json::string_t*>())
    std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

std::string text_in(const Json& object, std::string_view name) {
  const auto* text = member(object, name).get_ptr<const Json::string_t*>();
  return text == nullptr ? "" : *text;
}

const Json* item(const Json& list, int64_t index) {
  if (!list.is_array() || index < 0 || static_cast<uint64_t>(index) >= list.size()) return nullptr;
  return &list[static_cast<size_t>(index)];
}

// Reads a document without keeping it, up to the first part that exceeds a limit: a small file can
// be a large document.
class DocumentLimits final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return part(); }
  bool boolean(bool) override { return part(); }
  bool number_integer(int64_t) override { return part(); }
  bool number_unsigned(uint64_t) override { return part(); }
  bool number_float(double, const std::string&) override { return part(); }
  bool string(std::string&) override { return part(); }
  bool binary(binary_t&) override { return part(); }
  bool start_object(size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool start_array(size_t) override { return begin(); }
  bool end_array() override { return end(); }
  bool key(std::string&) override {
    is_exceeded_ |= ++members_[depth_] > kMaxProfileMembers;
    return part();
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  [[nodiscard]] bool is_exceeded() const { return is_exceeded_; }

 private:
  bool part() {
    is_exceeded_ |= ++values_ > kMaxProfileValues;
    return !is_exceeded_;
  }
  bool begin() {
    is_exceeded_ |= depth_ == kMaxProfileDepth;
    if (is_exceeded_) return false;
    members_[++depth_] = 0;
    return part();
  }
  bool end() {
    --depth_;
    return true;
  }

  std::array<size_t, kMaxProfileDepth + 1> members_{};  // by depth
  size_t depth_ = 0;
  size_t values_ = 0;
  bool is_exceeded_ = false;
};

class ProfileReader {
 public:
  explicit ProfileReader(Trace& trace) : trace_(trace) {}

  [[nodiscard]] Result<> add_allocator(const std::string& name, const Json& profile);
  void finish();

 private:
  [[nodiscard]] Result<> add_blocks(const Json& activity, int64_t count, DeviceTrace& device);
  [[nodiscard]] StackId stack_of(const Json& activity);

  Trace& trace_;
  std::set<std::pair<DeviceKind, uint32_t>> devices_;
  uint64_t total_ = 0;
  uint64_t blocks_ = 0;
  uint64_t merged_ = 0;
  uint64_t lost_ = 0;  // entries that refer to nothing
};

StackId ProfileReader::stack_of(const Json& activity) {
  StringTable& strings = trace_.tables.strings;
  std::vector<FrameId> frames;
  const std::string op = text_in(activity, "tfOpName");
  if (!op.empty()) frames.push_back(trace_.tables.frames.intern({.function = strings.intern(op)}));
  std::string what = text_in(activity, "regionType");
  for (const char* part : {"dataType", "tensorShape"}) {
    const std::string text = text_in(activity, part);
    if (!text.empty() && text != "INVALID") what += (what.empty() ? "" : " ") + text;
  }
  if (!what.empty())
    frames.push_back(trace_.tables.frames.intern({.function = strings.intern(what)}));
  return trace_.tables.stacks.intern(frames);
}

Result<> ProfileReader::add_blocks(const Json& activity, int64_t count, DeviceTrace& device) {
  const int64_t requested = number_in(activity, "requestedBytes");
  const int64_t allocated = std::max(number_in(activity, "allocationBytes"), requested);
  if (allocated < 0 || requested < 0 ||
      static_cast<uint64_t>(allocated) > (kMaxProfileTotal - total_) / static_cast<uint64_t>(count))
    return fail(Code::kBadInput, "expected sizes that add up to less than 4 EiB, found {} bytes",
                allocated);
  if (allocated == 0) return {};
  Block block;
  block.state = BlockState::kAllocated;
  block.size_bytes = static_cast<uint64_t>(allocated);
  block.requested_bytes = static_cast<uint64_t>(requested);
  if (static_cast<uint64_t>(count) > kMaxListedBlocks - std::min(blocks_, kMaxListedBlocks)) {
    ++merged_;
    block.size_bytes *= static_cast<uint64_t>(count);
    block.requested_bytes *= static_cast<uint64_t>(count);
    count = 1;
  }
  block.stack = stack_of(activity);
  trace_.has_stacks |= block.stack != 0;
  Segment& segment = device.segments.front();
  for (int64_t i = 0; i < count; ++i) {
    block.address = segment.address + segment.size_bytes;
    segment.size_bytes += block.size_bytes;
    segment.claimed_requested_bytes += block.requested_bytes;
    device.blocks.push_back(block);
  }
  blocks_ += static_cast<uint64_t>(count);
  total_ += block.size_bytes * static_cast<uint64_t>(count);
  return {};
}

// Each allocator is a device of its own here: those of the host are numbered as they come.
Result<> ProfileReader::add_allocator(const std::string& name, const Json& profile) {
  const Json& changes = member(profile, "memoryProfileSnapshots");
  const Json& specials = member(profile, "specialAllocations");
  const Json& active = member(profile, "activeAllocations");
  DeviceTrace device;
  std::tie(device.kind, device.ordinal) = device_of_allocator(name);
  while (devices_.contains({device.kind, device.ordinal})) ++device.ordinal;
  device.has_end_state = true;
  device.segments.emplace_back().address = kProfileAddress;
  if (active.is_array()) {
    for (const Json& entry : active) {
      const int64_t change = number_in(entry, "snapshotIndex");
      const Json* found =
          change >= 0 ? item(changes, change) : item(specials, number_in(entry, "specialIndex"));
      if (found != nullptr && change >= 0) found = &member(*found, "activityMetadata");
      if (!entry.is_object() || found == nullptr || !found->is_object()) {
        ++lost_;
        continue;
      }
      const int64_t count = std::clamp<int64_t>(number_in(entry, "numOccurrences"), 1, INT32_MAX);
      VRAM_TRY(add_blocks(*found, count, device));
    }
  }
  if (device.blocks.empty()) return {};
  Segment& segment = device.segments.front();
  segment.block_count = static_cast<uint32_t>(device.blocks.size());
  segment.claimed_allocated_bytes = segment.size_bytes;
  segment.claimed_active_bytes = segment.size_bytes;
  devices_.emplace(device.kind, device.ordinal);
  trace_.devices.push_back(std::move(device));
  return {};
}

void ProfileReader::finish() {
  std::ranges::stable_sort(trace_.devices, {}, [](const DeviceTrace& device) {
    return std::pair(device.kind, device.ordinal);
  });
  trace_.origin.notes.push_back({tr_later(
      "a memory profile of XProf is one moment, the peak of each allocator: it has no events and "
      "no addresses; each allocator is a device")});
  if (merged_ != 0)
    trace_.origin.notes.push_back(
        {tr_later("operators with more blocks than vram lists one by one are shown as one block"),
         merged_});
  if (lost_ != 0)
    trace_.origin.notes.push_back(
        {tr_later("active allocations that refer to nothing left out"), lost_});
}

}  // namespace

Result<Trace> import_memory_profile(ByteSource& source, const OpenOptions& options) {
  VRAM_TRY_ASSIGN(const std::string bytes,
                  read_all(source, options, kMaxMemoryProfileBytes, "a memory profile"));
  DocumentLimits limits;
  static_cast<void>(Json::sax_parse(bytes, &limits));
  if (limits.is_exceeded()) {
    return fail(Code::kTooLarge,
                "expected JSON of at most {} values, {} levels and {} members of an object, found "
                "more",
                format_count(kMaxProfileValues), kMaxProfileDepth,
                format_count(kMaxProfileMembers));
  }
  const Json document = Json::parse(bytes, nullptr, false);
  const Json& allocators = member(document, "memoryProfilePerAllocator");
  if (!allocators.is_object())
    return fail(
        Code::kBadInput, "expected JSON of XProf's tool memory_profile, found {}",
        document.is_discarded() ? "damaged JSON" : "none with \"memoryProfilePerAllocator\"");
  Trace trace;
  ProfileReader reader(trace);
  for (const auto& [name, profile] : allocators.items())
    VRAM_TRY(reader.add_allocator(name, profile));
  reader.finish();
  trace.origin.format = "XProf memory profile";
  return trace;
}

}  // namespace vram::trace
