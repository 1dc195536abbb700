// Holders and Processes on made-up trees: what a tick costs, and who is found when.
#include "gpu/drm/holders.hpp"

#include "base/bytes.hpp"
#include "gpu/drm/processes.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vram::gpu::drm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kNode = "/dev/dri/renderD128";

std::string client(uint64_t id, uint64_t vram_kib) {
  return fmt::format(
      "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t{}\n"
      "drm-memory-vram:\t{} KiB\n",
      id, vram_kib);
}

class HoldersTest : public testing::Test {
 protected:
  static constexpr uint32_t kUsers = 16;  // of two clients each, with two descriptors for each
  static constexpr uint32_t kFirstUser = 5000;
  static constexpr uint32_t kCrowd = 484;
  static constexpr uint32_t kFirstOfCrowd = 1000;
  static constexpr uint32_t kDescriptors = 8;

  // 500 processes with 4,000 descriptors.
  void make_crowd() const {
    tree_.add_crowd(kFirstOfCrowd, kCrowd, kDescriptors);
    for (uint32_t pid = kFirstUser; pid < kFirstUser + kUsers; ++pid) {
      tree_.add_process(pid, 100);
      for (uint32_t number = 0; number < kDescriptors / 2; ++number) {
        tree_.link(fmt::format("proc/{}/fd/{}", pid, number), "socket:[4]");
        tree_.add_descriptor(pid, number + kDescriptors / 2, kNode,
                             client(2 * pid + number % 2, 1024));
      }
    }
  }
  static constexpr uint32_t kLate = kFirstOfCrowd + 400;
  // One of the crowd has a device open, and so many descriptors.
  void opens_late(uint32_t descriptors) const {
    tree_.remove(fmt::format("proc/{}/fd", kLate));
    tree_.add_process(kLate, 100);
    tree_.add_descriptor(kLate, 9, kNode, client(88'000, 512));
    for (uint32_t number = 1; number < descriptors; ++number)
      tree_.link(fmt::format("proc/{}/fd/{}", kLate, number), "/dev/null");
  }
  void tick() { processes_.tick(files_, awake_); }
  [[nodiscard]] std::vector<DeviceProcess> found() const { return processes_.of(0, kGiB); }

  RecordedTree tree_;
  Files files_;
  AwakeDevices awake_{{{"renderD128", 0}}, {{"0000:03:00.0", 0}}};
  Processes processes_{tree_.roots().proc, Kfd::open(files_, tree_.roots().sys, {})};
};

TEST_F(HoldersTest, ATickAfterTheFirstOpensFewFiles) {
  make_crowd();
  tick();
  ASSERT_THAT(found(), SizeIs(kUsers));
  EXPECT_EQ(found()[0].used_bytes, 2 * kMiB);
  EXPECT_GE(files_.links_read(), (kCrowd + kUsers) * kDescriptors);
  for (int i = 0; i < 40; ++i) {
    const uint64_t opened = files_.opened();
    const uint64_t links = files_.links_read();
    tick();
    EXPECT_LE(files_.opened() - opened, 80u);  // /proc, 32 clients' fdinfo, a slice of folders
    EXPECT_LE(files_.links_read() - links, Holders::kLinksATick + kDescriptors);
    ASSERT_THAT(found(), SizeIs(kUsers));
  }
}

TEST_F(HoldersTest, ANewProcessIsSeenAtOnceAndAYoungOneSoon) {
  make_crowd();
  tick();
  tree_.add_process(9000, 9000);
  tree_.add_descriptor(9000, 3, kNode, client(77'000, 512));
  tree_.add_process(9001, 9001);
  tick();
  ASSERT_THAT(found(), SizeIs(kUsers + 1));
  EXPECT_EQ(found().back().pid, 9000u);
  tree_.add_descriptor(9001, 5, kNode, client(77'001, 512));
  tick();
  EXPECT_EQ(found().back().pid, 9001u);
  tree_.remove("proc/9001");
  tick();
  EXPECT_EQ(found().back().pid, 9000u);
}

TEST_F(HoldersTest, AnOldProcessThatOpensADeviceIsSeenByTheNumberOfItsDescriptors) {
  if (!tree_.is_in_memory()) GTEST_SKIP() << "folders' sizes say nothing here";
  make_crowd();
  tick();
  opens_late(1);
  for (uint64_t i = 0; i < Holders::kCountTicks; ++i) tick();
  EXPECT_EQ(found()[0].pid, kLate);
}

TEST_F(HoldersTest, TheSweepComesRoundToEveryone) {
  make_crowd();
  tick();
  opens_late(kDescriptors);      // as many as it had
  constexpr int kMaxTicks = 80;  // 500 x (8 + 2) links of 64 a tick
  int ticks = 0;
  for (; found().size() == kUsers && ticks <= kMaxTicks; ++ticks) tick();
  EXPECT_LE(ticks, kMaxTicks);
  // And who no longer holds anything is forgotten.
  for (uint32_t number = 4; number < 8; ++number)
    tree_.remove(fmt::format("proc/{}/fd/{}", kFirstUser, number));
  for (int i = 0; i < kMaxTicks; ++i) tick();
  EXPECT_THAT(found(), SizeIs(kUsers));
  EXPECT_EQ(found()[0].pid, kLate);
  EXPECT_EQ(found()[1].pid, kFirstUser + 1);
}

TEST_F(HoldersTest, AClientSharedWithAChildIsTheParentsUntilItIsGone) {
  tree_.add_process(50, 9000);  // pids wrapped around: the child has the smaller one
  tree_.add_process(4000, 100);
  tree_.add_descriptor(50, 6, kNode, client(5, 300));
  tree_.add_descriptor(4000, 6, kNode, client(5, 300));
  tree_.add_descriptor(4000, 7, kNode, client(5, 300));
  for (int i = 0; i < 3; ++i) {
    tick();
    ASSERT_THAT(found(), SizeIs(1));
    EXPECT_EQ(found()[0].pid, 4000u);
    EXPECT_EQ(found()[0].used_bytes, 300 * kKiB);
  }
  tree_.remove("proc/4000");
  tick();
  ASSERT_THAT(found(), SizeIs(1));
  EXPECT_EQ(found()[0].pid, 50u);
}

TEST_F(HoldersTest, WhatIsNotReadableIsNotThere) {
  tree_.add_process(60, 100);
  tree_.add_descriptor(60, 1, kNode, client(1, 10));
  tree_.write("proc/60/stat", "60 (cut of");
  tree_.add_process(61, 100);
  tree_.add_descriptor(61, 1, "/dev/dri/card", client(2, 10));
  tree_.add_descriptor(61, 2, "/dev/dri/renderD12x", client(3, 10));
  tree_.add_descriptor(61, 3, "/home/dri.txt", client(4, 10));
  tree_.add_process(62, 100);
  tree_.add_descriptor(62, 1, kNode, "drm-driver:\tamdgpu\ndrm-memory-vram:\t12345");  // no newline
  tick();
  EXPECT_THAT(found(), IsEmpty());
}

}  // namespace
}  // namespace vram::gpu::drm
