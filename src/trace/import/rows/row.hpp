// Row: an event as both forms of an export spell it, and its way into a Trace. Internal to
// import/rows; one thread at a time.
#pragma once

#include "base/memory.hpp"
#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vram::trace::rows {

struct Row {
  uint32_t device = 0;
  DeviceKind device_kind = DeviceKind::kGpu;
  std::optional<int64_t> time_ns;
  std::string action;
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t stream = 0;
  std::optional<PoolName> pool;
  std::string compile_id;
  std::string user_metadata;
  std::string category;
  std::string stack;  // frames as "file:line function", innermost first, each with its end mark
};

inline constexpr char kFrameEnd = '\0';

// `digits` is the part of `text` that has them; an error names `text` and what was expected.
template <typename Number>
[[nodiscard]] Result<Number> parse_digits(std::string_view text, std::string_view digits, int base,
                                          std::string_view expected);
// "0x7f1ca0000000".
[[nodiscard]] Result<uint64_t> parse_address(std::string_view text);
[[nodiscard]] Result<DeviceKind> parse_device_kind(std::string_view text);
template <typename Number>
[[nodiscard]] Result<Number> parse_whole(std::string_view text);

// kTooLarge, of a file that needs more memory than that.
[[nodiscard]] Error beyond_memory(uint64_t max_memory_bytes);

// Collects rows of all devices in any order into a trace with the events of one device after
// another. A small compressed file may have more rows than the machine has memory for.
class Collector {
 public:
  explicit Collector(Trace& trace, uint64_t max_memory_bytes = default_memory_limit_bytes())
      : trace_(trace), max_memory_bytes_(max_memory_bytes) {}

  // kTooLarge if the events and their texts need more memory than that.
  [[nodiscard]] Result<> add(const Row& row);
  // Moves the events in. Nothing may be added later.
  void finish();

 private:
  struct Device {
    DeviceKind kind;
    uint32_t ordinal;
    PodVector<Event> events;
  };
  [[nodiscard]] Result<Device*> device_of(const Row& row);
  [[nodiscard]] StackId stack_of(const std::string& frames);
  [[nodiscard]] FrameId frame_of(std::string_view text);
  [[nodiscard]] ContextId context_of(const Row& row);

  Trace& trace_;
  const uint64_t max_memory_bytes_;
  uint64_t memory_bytes_ = 0;
  std::vector<Device> devices_;
  size_t last_device_ = 0;
  // Neighbours share most: the last ones are kept with their ids.
  std::string last_frames_;
  StackId last_stack_ = 0;
  std::unordered_map<std::string, FrameId> frames_;
};

}  // namespace vram::trace::rows
