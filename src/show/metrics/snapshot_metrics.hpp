// The metrics of a snapshot's devices and processes. `devices`: the devices' labels by their index
// in the snapshot. Pure functions.
#pragma once

#include "show/metrics/families.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::show::metrics {

// By which each device is called: its UUID, else its PCI id, else its place; no two the same.
[[nodiscard]] std::vector<Labels> device_labels(const watch::Snapshot& snapshot);

void add_device(const watch::Device& device, const Labels& labels, Families& families);
void add_mig(const watch::Device& device, const Labels& labels, Families& families);
// Sums over the processes of each device: by pod, of allocators, of those that can't be seen.
void add_sums(const watch::Snapshot& snapshot, const std::vector<Labels>& devices,
              Families& families);
// The `limit` processes with the most memory, and the sum of the others.
void add_processes(const watch::Snapshot& snapshot, const std::vector<Labels>& devices,
                   uint32_t limit, Families& families);
void add_dcgm(const watch::Snapshot& snapshot, Families& families);

[[nodiscard]] double seconds_of(uint64_t ns);

}  // namespace vram::show::metrics
