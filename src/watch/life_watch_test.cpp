// Which processes have ended, of real ones: children of the test.
#include "watch/life_watch.hpp"

#include "watch/process_table.hpp"
#include "watch/testing/processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace vram::watch {
namespace {

using testing::Child;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Added = LifeWatch::Added;

// Kernels older than 5.3 and some sandboxes do not offer it.
bool is_offered() {
  LifeWatch watch("/proc");
  return watch.add(static_cast<uint32_t>(getpid())) == Added::kYes;
}

// Of this process, while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t soft) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit changed{soft, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &changed);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

class LifeWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_offered()) GTEST_SKIP() << "the kernel offers no pidfd_open";
  }
  LifeWatch watch_{"/proc"};
};

TEST_F(LifeWatchTest, TheEndOfAProcessIsToldOnce) {
  Child first;
  Child second;
  ASSERT_EQ(watch_.add(first.pid()), Added::kYes);
  ASSERT_EQ(watch_.add(second.pid()), Added::kYes);
  EXPECT_THAT(watch_.take_ended().value(), IsEmpty());
  first.end();  // its exit code is not collected yet
  EXPECT_THAT(watch_.take_ended().value(), ElementsAre(first.pid()));
  EXPECT_THAT(watch_.take_ended().value(), IsEmpty());
  EXPECT_EQ(watch_.size(), 1U);
  second.end();
  second.reap();
  EXPECT_THAT(watch_.take_ended().value(), ElementsAre(second.pid()));
  EXPECT_EQ(watch_.add(second.pid()), Added::kNobody);
}

TEST_F(LifeWatchTest, ThoseNotKeptAreNotTold) {
  Child first;
  Child second;
  ASSERT_EQ(watch_.add(first.pid()), Added::kYes);
  ASSERT_EQ(watch_.add(second.pid()), Added::kYes);
  watch_.keep_only([&](uint32_t pid) { return pid == second.pid(); });
  first.end();
  second.end();
  EXPECT_THAT(watch_.take_ended().value(), ElementsAre(second.pid()));
}

TEST_F(LifeWatchTest, NumbersThatNoProcessHasAreNobodys) {
  EXPECT_EQ(watch_.add(0), Added::kNobody);
  EXPECT_EQ(watch_.add(3'000'000'000), Added::kNobody);  // not a pid of the kernel's at all
}

TEST_F(LifeWatchTest, HalfOfTheDescriptorsStayFree) {
  const DescriptorLimit limit(64);
  const auto self = static_cast<uint32_t>(getpid());
  const std::vector<Child> others(32);
  for (const Child& other : others) ASSERT_EQ(watch_.add(other.pid()), Added::kYes);
  EXPECT_EQ(watch_.add(self), Added::kNo);
  watch_.keep_only([](uint32_t) { return false; });
  EXPECT_EQ(watch_.add(self), Added::kYes);
}

TEST(LifeWatch, ATreeThatOnlyLooksLikeProcIsNotAskedFor) {
  const testing::ProcTree tree;
  LifeWatch watch(tree.root());
  EXPECT_EQ(watch.add(static_cast<uint32_t>(getpid())), Added::kNo);
  EXPECT_EQ(watch.add(3'000'000'000), Added::kNo) << "there it may have files";
}

// The table, with and without the kernel's help: what it says is the same.
class LivingTableTest : public ::testing::Test {
 protected:
  const ProcessFacts& tick(uint32_t pid) {
    table_.forget_unused();
    table_.begin_tick();
    return table_.facts(pid);
  }
  ProcessTable table_;
};

TEST_F(LivingTableTest, AnEndIsSeenInTheNextTick) {
  Child child;
  const auto start = tick(child.pid()).start_ticks;
  ASSERT_TRUE(start.has_value());
  for (int i = 0; i < 20; ++i) ASSERT_EQ(tick(child.pid()).start_ticks, start);
  child.end();
  EXPECT_EQ(tick(child.pid()).start_ticks, start) << "it waits for its parent";
  EXPECT_EQ(tick(child.pid()).start_ticks, start);
  child.reap();
  EXPECT_EQ(tick(child.pid()).start_ticks, std::nullopt);
  EXPECT_EQ(tick(child.pid()).start_ticks, std::nullopt);
}

TEST_F(LivingTableTest, AnotherProgramIsSeenWithinEightTicks) {
  Child child;
  const std::string before = tick(child.pid()).command.value();
  child.become_sleep();
  int ticks = 0;
  while (tick(child.pid()).command == before && ticks < 100) ++ticks;
  EXPECT_LT(ticks, 8);
  EXPECT_EQ(table_.facts(child.pid()).command, "sleep 1000");
}

TEST_F(LivingTableTest, AProgramThatSettledIsLookedAtEachThirtySecondTick) {
  Child child;
  const std::string before = tick(child.pid()).command.value();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(tick(child.pid()).command, before);
  child.become_sleep();
  int ticks = 0;
  while (tick(child.pid()).command == before && ticks < 100) ++ticks;
  EXPECT_LT(ticks, 32);
  EXPECT_EQ(table_.facts(child.pid()).command, "sleep 1000");
}

TEST_F(LivingTableTest, WithoutATickNothingIsTakenOnTrust) {
  Child child;
  const std::string before = table_.facts(child.pid()).command.value();
  child.become_sleep();
  EXPECT_EQ(table_.facts(child.pid()).command, "sleep 1000");
}

TEST_F(LivingTableTest, WithoutRoomForDescriptorsAllIsReadAsEver) {
  Child child;
  const DescriptorLimit limit(64);
  std::vector<Child> others(32);  // as many as may be watched
  table_.begin_tick();
  for (const Child& other : others) (void)table_.facts(other.pid());
  const std::string before = table_.facts(child.pid()).command.value();
  child.become_sleep();
  table_.forget_unused();
  table_.begin_tick();
  EXPECT_NE(table_.facts(child.pid()).command, before);
}

}  // namespace
}  // namespace vram::watch
