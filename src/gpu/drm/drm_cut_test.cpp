// Drm where one file of a recorded machine is cut off, at every byte of it: what it still tells is
// what the whole file told. Half a number is none, and part of the memory is not all of it.
#include "base/testing/paths.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace vram::gpu::drm {
namespace {

// By the device's address and the figure's name, in so far as they are known.
using Figures = std::map<std::string, std::string>;

class Listing {
 public:
  explicit Listing(std::string device) : device_(std::move(device)) {}

  template <typename T>
  void add(const std::string& name, const std::optional<T>& figure) {
    if (!figure) return;
    if constexpr (std::is_same_v<T, std::string>) {
      figures[device_ + " " + name] = *figure;
    } else {
      figures[device_ + " " + name] = std::to_string(*figure);
    }
  }
  void add(const std::string& name, const DeviceMemory& memory) {
    add(name + " total", memory.total_bytes);
    add(name + " used", memory.used_bytes);
    add(name + " free", memory.free_bytes);
  }

  Figures figures;

 private:
  std::string device_;
};

Figures figures_of(const Drm& drm, uint32_t index) {
  const DeviceIdentity identity = drm.identity(index);
  const DeviceHealth health = drm.health(index);
  const DeviceSample sample = drm.sample(index);
  Listing listing(identity.pci_id.value_or(""));
  listing.add("name", identity.name);
  listing.add("uuid", identity.uuid);
  listing.add("limit", identity.power_limit_milliwatts);
  listing.add("bar1", health.bar1.value_or(DeviceMemory{}));
  listing.add("memory celsius", health.memory_celsius);
  listing.add("corrected", health.ecc_since_boot.corrected);
  listing.add("memory", sample.memory);
  listing.add("host memory", sample.host_memory);
  listing.add("busy", sample.busy_percent);
  listing.add("celsius", sample.celsius);
  listing.add("milliwatts", sample.milliwatts);
  listing.add("core", sample.core_mhz);
  listing.add("memory clock", sample.memory_mhz);
  return listing.figures;
}

Figures figures_of(const RecordedTree& tree) {
  const Drm drm = Drm::open(tree.roots());
  Figures all;
  for (uint32_t index = 0; index < drm.device_count().value(); ++index)
    all.merge(figures_of(drm, index));
  return all;
}

// All that processes use of all devices.
uint64_t used_by_processes(const RecordedTree& tree) {
  const Drm drm = Drm::open(tree.roots());
  uint64_t sum = 0;
  for (uint32_t index = 0; index < drm.device_count().value(); ++index) {
    const auto processes = drm.sample(index).processes;
    if (!processes) continue;
    for (const DeviceProcess& process : *processes) sum += process.used_bytes.value_or(0);
  }
  return sum;
}

void expect_nothing_new(const Figures& now, const Figures& whole) {
  for (const auto& [name, figure] : now) {
    const auto expected = whole.find(name);
    EXPECT_EQ(figure, expected == whole.end() ? "unknown" : expected->second) << name;
  }
}

// Trees in which all that processes have is resident: a file cut off behind the total is then no
// larger figure.
class DrmCutTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Trees, DrmCutTest,
                         testing::Values("amdgpu_vega64.tree", "amdgpu_mi308x_cpx.tree",
                                         "amdgpu_all_regions.tree", "xe_two_tiles.tree",
                                         "xe_7.0_battlemage_g31.tree", "xe_6.18_arc_b580.tree"),
                         [](const auto& tree) { return test_name_of(tree.param); });

TEST_P(DrmCutTest, WhatIsStillToldIsAsBefore) {
  const RecordedTree tree(data_path("recorded_gpus/") + GetParam());
  const Figures whole = figures_of(tree);
  const uint64_t used = used_by_processes(tree);
  for (const auto& path : tree.files()) {
    const std::string contents = RecordedTree::contents_of(path);
    for (size_t size = 0; size < contents.size(); ++size) {
      std::ofstream(path, std::ios::binary) << contents.substr(0, size);
      expect_nothing_new(figures_of(tree), whole);
      EXPECT_LE(used_by_processes(tree), used);
      ASSERT_FALSE(HasFailure()) << path << " cut off after " << size << " bytes";
    }
    std::ofstream(path, std::ios::binary) << contents;
  }
}

}  // namespace
}  // namespace vram::gpu::drm
