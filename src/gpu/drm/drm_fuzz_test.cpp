// Drm on trees whose files are cut off, overwritten, huge, gone or something else entirely: it
// never crashes, and says nothing that cannot be.
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/testing/paths.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <sys/stat.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace vram::gpu::drm {
namespace {

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}

  // As the file is, with something done to it.
  [[nodiscard]] std::string damaged(std::string text) {
    switch (below(8)) {
      case 0:
        return text.substr(0, below(text.size() + 1));
      case 1:
        return replaced_number(std::move(text));
      case 2:
        for (int i = 0; i < 4 && !text.empty(); ++i)
          text[below(text.size())] = static_cast<char>(below(256));
        return text;
      case 3:
        return std::string(below(40'000), static_cast<char>('0' + below(10))) + "\n";
      case 4:
        return text + text;
      case 5:
        return "";
      case 6:
        return random_bytes(below(500));
      default:
        return kNumbers[below(std::size(kNumbers))] + std::string("\n");
    }
  }
  [[nodiscard]] size_t below(size_t end) { return random_() % end; }

 private:
  [[nodiscard]] std::string random_bytes(size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(below(256));
    return bytes;
  }

  static constexpr const char* kNumbers[] = {"18446744073709551615",
                                             "18446744073709551616",
                                             "9223372036854775808",
                                             "-1",
                                             "0",
                                             "1e9",
                                             "",
                                             "99999999999999 GiB",
                                             "0x10"};

  std::string replaced_number(std::string text) {
    const auto first = text.find_first_of("0123456789", text.empty() ? 0 : below(text.size()));
    if (first == std::string::npos) return text;
    const auto last = text.find_first_not_of("0123456789", first);
    return text.replace(first, last - first, kNumbers[below(std::size(kNumbers))]);
  }

  std::mt19937_64 random_;
};

void expect_possible(const DeviceMemory& memory) {
  EXPECT_LE(memory.total_bytes.value_or(0), uint64_t{1} << 50);
  EXPECT_LE(memory.used_bytes.value_or(0), memory.total_bytes.value_or(uint64_t{1} << 50));
  if (memory.free_bytes) {
    EXPECT_EQ(*memory.used_bytes + *memory.free_bytes, *memory.total_bytes);
  }
}

void expect_possible(const DeviceSample& sample) {
  expect_possible(sample.memory);
  expect_possible(sample.host_memory);
  EXPECT_LE(sample.busy_percent.value_or(0), 100u);
  EXPECT_LE(sample.memory_busy_percent.value_or(0), 100u);
  EXPECT_LE(sample.celsius.value_or(0), 200u);
  if (!sample.processes) return;
  uint32_t last_pid = 0;
  for (const DeviceProcess& process : *sample.processes) {
    EXPECT_GT(process.pid, last_pid);
    last_pid = process.pid;
    const uint64_t total = sample.memory.total_bytes.value_or(uint64_t{1} << 50);
    EXPECT_LE(process.used_bytes.value_or(0), total);
    const uint64_t host_total = sample.host_memory.total_bytes.value_or(uint64_t{1} << 50);
    EXPECT_LE(process.host_bytes.value_or(0), host_total);
    EXPECT_LE(process.busy_percent.value_or(0), 100u);
  }
}

void query_everything(const Drm& drm) {
  const uint32_t count = drm.device_count().value();
  EXPECT_LE(count, 2u);
  for (uint32_t index = 0; index < count; ++index) {
    const DeviceIdentity identity = drm.identity(index);
    for (const auto& text : {identity.name, identity.uuid, identity.driver}) {
      for (const char c : text.value_or("")) EXPECT_GE(static_cast<unsigned char>(c), ' ');
    }
    if (const auto bar1 = drm.health(index).bar1) expect_possible(*bar1);
    expect_possible(drm.sample(index));
  }
}

// Every tree that tests have, in order.
std::vector<std::filesystem::path> recorded_trees() {
  std::vector<std::filesystem::path> found;
  for (const std::string& folder : {data_path("drm"), data_path("recorded_gpus")}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".tree") found.push_back(entry.path());
    }
  }
  VRAM_CHECK(!found.empty());
  std::sort(found.begin(), found.end());
  return found;
}

class DrmFuzzTest : public testing::TestWithParam<std::filesystem::path> {};
INSTANTIATE_TEST_SUITE_P(Trees, DrmFuzzTest, testing::ValuesIn(recorded_trees()),
                         [](const auto& tree) { return test_name_of(tree.param); });

// 200 rounds with each tree. Devices that were open before the damage are asked, too.
TEST_P(DrmFuzzTest, SaysNothingThatCannotBe) {
  const RecordedTree tree(GetParam());
  const auto paths = tree.files();
  std::vector<std::string> whole;
  for (const auto& path : paths) whole.push_back(RecordedTree::contents_of(path));
  const Drm before = Drm::open(tree.roots());
  Damage damage(paths.size());
  for (int round = 0; round < 200; ++round) {
    std::vector<size_t> touched;
    for (size_t hurt = 0; hurt <= damage.below(6); ++hurt) {
      touched.push_back(damage.below(paths.size()));
      std::ofstream(paths[touched.back()], std::ios::binary)
          << damage.damaged(whole[touched.back()]);
    }
    query_everything(before);
    query_everything(Drm::open(tree.roots()));
    ASSERT_FALSE(HasFailure()) << "round " << round << ": " << paths[touched.front()];
    for (const size_t i : touched) std::ofstream(paths[i], std::ios::binary) << whole[i];
  }
}

// Not even root can read a link to itself.
TEST_P(DrmFuzzTest, AnyFileMayBeGoneUnreadableOrAFolderOrAPipe) {
  const RecordedTree tree(GetParam());
  for (const auto& path : tree.files()) {
    const std::string whole = RecordedTree::contents_of(path);
    std::filesystem::remove(path);
    query_everything(Drm::open(tree.roots()));
    std::filesystem::create_symlink(path.filename(), path);
    query_everything(Drm::open(tree.roots()));
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    query_everything(Drm::open(tree.roots()));
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    query_everything(Drm::open(tree.roots()));
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << whole;
  }
}

}  // namespace

// Drm where one file of a recorded machine is truncated, at every byte of it: each figure that is
// still reported is that of the complete file. Half a number is unknown, and so is a part of a sum.

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
