// Recorded: Drm on the files of a real machine (tests/data/recorded_gpus; its README names the
// source of each and what was added). Use it from one thread at a time.
#pragma once

#include "base/testing/paths.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace vram::gpu::drm {

class Recorded {
 public:
  explicit Recorded(const std::string& name)
      : tree_(data_path("recorded_gpus/") + name + ".tree"), drm_(Drm::open(tree_.roots())) {}

  [[nodiscard]] const RecordedTree& tree() const { return tree_; }
  [[nodiscard]] const Drm& drm() const { return drm_; }
  [[nodiscard]] uint32_t devices() const { return drm_.device_count().value(); }
  [[nodiscard]] DeviceSample sample(uint32_t index = 0) const { return drm_.sample(index); }
  [[nodiscard]] std::vector<DeviceProcess> processes(uint32_t index = 0) const {
    return drm_.sample(index).processes.value();
  }
  // Of the one device's one process.
  [[nodiscard]] DeviceProcess process() const {
    EXPECT_EQ(devices(), 1u);
    const auto found = processes();
    EXPECT_THAT(found, testing::SizeIs(1));
    return found.empty() ? DeviceProcess{} : found.front();
  }

 private:
  RecordedTree tree_;
  Drm drm_;
};

inline void expect_memory_unknown(const DeviceSample& sample) {
  EXPECT_EQ(sample.memory.total_bytes, std::nullopt);
  EXPECT_EQ(sample.memory.used_bytes, std::nullopt);
  EXPECT_EQ(sample.memory.free_bytes, std::nullopt);
  EXPECT_EQ(sample.host_memory.total_bytes, std::nullopt);
}

}  // namespace vram::gpu::drm
