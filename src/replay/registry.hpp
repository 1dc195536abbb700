// Registry: the allocators a program can be replayed on, by name. To add one: write
// peers/<name>.{hpp,cpp} and a line in registry.cpp. Constant data; pure functions.
#pragma once

#include "base/result.hpp"
#include "replay/allocator.hpp"
#include "replay/replay.hpp"
#include "replay/segment_source.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace vram::replay {

using Settings = std::span<const std::pair<std::string, std::string>>;

// What an allocator uses. All must outlive it.
struct PeerContext {
  const Program& program;
  SegmentSource& segments;              // and through it the simulated GPU
  std::optional<uint64_t> limit_bytes;  // on reserved bytes
  bool limit_is_fraction = false;       // as in ReplayOptions
  int64_t lag_ns = 0;
};

struct PeerKey {
  std::string_view name;
  std::string_view form;  // "MEBIBYTES, more than 20"
};

struct Peer {
  std::string_view name;
  std::string_view summary;
  bool is_model = false;        // an approximation
  std::string_view model_note;  // what it was compared with
  std::span<const PeerKey> keys;
  // Checks keys and values; make() is called only with valid ones.
  Result<> (*check)(Settings settings);
  std::unique_ptr<Allocator> (*make)(Settings settings, const PeerContext& context);
  // Whether it reserves the whole device with these settings, so that replay() needs the capacity.
  bool (*needs_capacity)(Settings settings) = nullptr;
  // Whether it has a memory fraction besides the device's end; for other allocators, that is the
  // device's end.
  bool has_memory_fraction = false;
};

[[nodiscard]] std::span<const Peer> peers();
// nullptr when unknown.
[[nodiscard]] const Peer* find_peer(std::string_view name);

// "valid keys of torch: max_split_size_mb=MEBIBYTES, ...": the end of every error about a key or
// value.
[[nodiscard]] std::string list_keys(std::string_view peer, std::span<const PeerKey> keys);

}  // namespace vram::replay
