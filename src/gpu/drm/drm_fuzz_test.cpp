// Drm on trees whose files are cut off, overwritten, huge, gone or something else entirely: it
// never crashes, and says nothing that cannot be.
#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/testing/paths.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <sys/stat.h>
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
}  // namespace vram::gpu::drm
