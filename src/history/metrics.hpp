// Metrics: the figures of a device that the history keeps, with the names and units of
// vram.status/1 (docs/json.md). Numbers are part of the file's format: add, never change. Values.
#pragma once

#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace vram::history {

struct Metric {
  uint32_t number = 0;  // in files
  std::string_view name;
  std::string_view unit;
};

[[nodiscard]] std::span<const Metric> metrics();
[[nodiscard]] std::optional<Metric> find_metric(std::string_view name);

// Of a process on a device, and the first of a device's.
inline constexpr uint32_t kUsedBytes = 1;

struct MetricValue {
  uint32_t number = 0;
  int64_t value = 0;
};

// Returns the known values. Values above 2^53 are dropped: JSON readers cannot represent them.
[[nodiscard]] std::vector<MetricValue> values_of(const watch::Device& device);
// Returns the values that an instance has of its own.
[[nodiscard]] std::vector<MetricValue> values_of(const gpu::MigInstance& instance);
[[nodiscard]] std::optional<int64_t> storable(std::optional<uint64_t> value);

}  // namespace vram::history
