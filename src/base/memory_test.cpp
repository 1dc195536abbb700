#include "base/memory.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace vram {
namespace {

namespace fs = std::filesystem;

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = testing::TempDir() + "vram_memory_" + std::to_string(getpid()) + "_" + info->name();
    fs::remove_all(root_);
  }
  ~MemoryTest() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    const std::string path = root_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] uint64_t bound() const { return default_memory_limit_bytes(root_); }

  std::string root_;
  // As if there were no cgroups.
  uint64_t machine_ = default_memory_limit_bytes("/nowhere");
};

TEST_F(MemoryTest, IsMostOfTheMachinesMemory) {
  const uint64_t pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  const uint64_t bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GE(machine_, 512 * kMiB);
  EXPECT_TRUE(bytes <= kGiB || machine_ < bytes);
  EXPECT_GE(machine_, bytes / 5 * 4);
}

TEST_F(MemoryTest, AContainerHasLess) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "268435456\n");
  EXPECT_EQ(bound(), 268435456 / 5 * 4);
}

TEST_F(MemoryTest, EachGroupAboveLimitsIt) {
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", "104857600\n");
  write("sys/fs/cgroup/slurm/memory.max", "209715200\n");
  EXPECT_EQ(bound(), 104857600 / 5 * 4);
}

TEST_F(MemoryTest, OfVersionOneToo) {
  write("proc/self/cgroup", "12:cpu,cpuacct:/a\n5:memory:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "157286400\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/memory.max", "1\n");
  EXPECT_EQ(bound(), 157286400 / 5 * 4);
}

TEST_F(MemoryTest, NoLimitAndWhatIsNoneIsTheMachines) {
  EXPECT_EQ(bound(), machine_);
  for (const char* text : {"", "0::\n", "nonsense", "0::relative\n", ":::\n", "5:memory\n"}) {
    write("proc/self/cgroup", text);
    EXPECT_EQ(bound(), machine_) << text;
  }
  write("proc/self/cgroup", "0::/x\n");
  for (const char* text : {"max\n", "", "9223372036854771712\n", "many\n"}) {
    write("sys/fs/cgroup/x/memory.max", text);
    EXPECT_EQ(bound(), machine_) << text;
  }
}

}  // namespace
}  // namespace vram
