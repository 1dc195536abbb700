// replay(): simulates the program with another allocator, other settings or less memory. Pure: uses
// a simulated GPU, reads and writes nothing. One thread for each call; calls are independent.
#pragma once

#include "base/result.hpp"
#include "replay/program.hpp"
#include "replay/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::replay {

// "torch:max_split_size_mb=128,garbage_collection_threshold=0.8" taken apart; the keys were checked
// by the registry.
struct AllocatorSpec {
  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const AllocatorSpec&, const AllocatorSpec&) = default;
};

// Errors: kBadInput with the known allocators, or with the valid keys of this one and their
// formats.
[[nodiscard]] Result<AllocatorSpec> parse_spec(std::string_view text);
inline constexpr std::string_view kExpandableSpec = "torch:expandable_segments=True";
// "torch", "torch with expandable segments", ...: name and one line each, for help and errors.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> known_allocators();
// The spec that the recorded program ran with, from its settings.
[[nodiscard]] AllocatorSpec recorded_spec(const trace::Trace& trace);

struct ReplayOptions {
  // The limit on reserved bytes; none: the simulated device is larger than any real one.
  std::optional<uint64_t> capacity_bytes = {};
  // The limit is PyTorch's memory fraction, not the device's end. PyTorch compares it with the
  // reserved bytes plus a request's whole segment, even if expandable segments map less, and these
  // exceed it by less than a granule; a device refuses only what does not fit.
  bool capacity_is_fraction = false;
  int64_t lag_ns = 10'000'000;  // how long a stream's work may lag behind the host
  uint32_t curve_slices = 200;
  bool search_min_capacity = false;
  // Address layouts to try where addresses may decide (ReplayResult); 1: the driver's as observed.
  uint32_t address_layouts = 9;
  uint32_t address_layout = 0;  // the first of them: gpu/sim/address_space.hpp
  // Gives up beyond so many calls to the driver: an allocator that maps pages needs 52,000 for a
  // request of 1 TiB.
  std::optional<uint64_t> max_driver_calls = {};
};

[[nodiscard]] Result<ReplayResult> replay(const Program& program, const AllocatorSpec& spec,
                                          const ReplayOptions& options);

// The text form of settings: "key=value,key=value" and, as in PYTORCH_CUDA_ALLOC_CONF,
// "key:value,key:value". Commas inside brackets belong to the value. Pure.

// A piece without '=' or ':' becomes a key with an empty value; empty pieces are left out.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> split_settings(
    std::string_view text);

}  // namespace vram::replay
