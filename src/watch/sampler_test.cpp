#include "watch/sampler.hpp"

#include "base/testing/waiting.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace vram::watch {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kTimeout = seconds(30);  // a machine may be busy

bool becomes_readable(int descriptor) {
  pollfd waited{.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&waited, 1, static_cast<int>(milliseconds(kTimeout).count())) == 1;
}

std::shared_ptr<const Sampled> next_sample(const Sampler& sampler) {
  if (!becomes_readable(sampler.wake_fd())) return nullptr;
  uint64_t samples = 0;
  (void)!read(sampler.wake_fd(), &samples, sizeof samples);
  return sampler.latest();
}

// A door that looks stand before until it is opened.
class Door {
 public:
  void open() {
    const std::lock_guard guard(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  // False: it was not opened in time.
  bool pass() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTimeout, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

SamplerHooks counting(const std::shared_ptr<std::atomic<int>>& samples) {
  SamplerHooks hooks;
  hooks.take_sample = [samples] {
    Snapshot snapshot;
    snapshot.time_ns = ++*samples;
    return snapshot;
  };
  return hooks;
}

TEST(Sampler, LooksAtOnceAndNumbersItsLooks) {
  const auto samples = std::make_shared<std::atomic<int>>(0);
  const Sampler sampler(counting(samples), milliseconds(5));
  const auto first = next_sample(sampler);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->snapshot.time_ns, static_cast<int64_t>(first->number));
  const auto later = next_sample(sampler);
  ASSERT_NE(later, nullptr);
  EXPECT_GT(later->number, first->number);
  EXPECT_GE(later->begin_ns, first->begin_ns + 1);
  EXPECT_GT(later->period_ns, 0U);
}

TEST(Sampler, TheFirstLookHasNoPeriod) {
  const auto samples = std::make_shared<std::atomic<int>>(0);
  const Sampler sampler(counting(samples), hours(1));
  const auto first = next_sample(sampler);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->number, 1U);
  EXPECT_EQ(first->period_ns, 0U);
}

TEST(Sampler, LooksNowOnRequestAndWithANewPeriod) {
  const auto samples = std::make_shared<std::atomic<int>>(0);
  Sampler sampler(counting(samples), hours(1));
  ASSERT_NE(next_sample(sampler), nullptr);
  sampler.sample_now();
  const auto second = next_sample(sampler);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->number, 2U);
  sampler.set_period(milliseconds(1));
  const auto third = next_sample(sampler);
  ASSERT_NE(third, nullptr);
  EXPECT_GE(third->number, 3U);
}

TEST(Sampler, TellsOfEachLookBeforeOthersSeeIt) {
  const auto samples = std::make_shared<std::atomic<int>>(0);
  const auto last_seen = std::make_shared<std::atomic<uint64_t>>(0);
  SamplerHooks hooks = counting(samples);
  hooks.seen = [last_seen](const Sampled& sampled) { *last_seen = sampled.number; };
  const Sampler sampler(std::move(hooks), milliseconds(1));
  for (int i = 0; i < 10; ++i) {
    const auto sample = next_sample(sampler);
    ASSERT_NE(sample, nullptr);
    EXPECT_GE(*last_seen, sample->number);
  }
}

TEST(Sampler, ALookThatHangsHoldsUpNobody) {
  const auto door = std::make_shared<Door>();
  const auto released = std::make_shared<std::atomic<int>>(0);
  SamplerHooks hooks;
  hooks.take_sample = [door, samples = 0]() mutable {
    if (++samples == 2) (void)door->pass();
    return Snapshot{};
  };
  hooks.release = [released] { ++*released; };
  Sampler sampler(std::move(hooks), milliseconds(1));
  ASSERT_NE(next_sample(sampler), nullptr);
  EXPECT_TRUE(eventually([&] { return sampler.overdue_ns() > 0; }))
      << "the hanging look is on time";
  EXPECT_EQ(sampler.latest()->number, 1U);
  sampler.release();
  EXPECT_EQ(*released, 0);  // a hook is never called while another one runs
  door->open();
  ASSERT_NE(next_sample(sampler), nullptr);
  EXPECT_TRUE(eventually([&] { return *released != 0; })) << "the driver was not let go of";
  EXPECT_EQ(*released, 1);
}

TEST(Sampler, LetsGoAtOnceWhileItWaits) {
  const auto samples = std::make_shared<std::atomic<int>>(0);
  const auto door = std::make_shared<Door>();
  SamplerHooks hooks = counting(samples);
  hooks.release = [door] { door->open(); };
  Sampler sampler(std::move(hooks), hours(1));
  ASSERT_NE(next_sample(sampler), nullptr);
  sampler.release();
  EXPECT_TRUE(door->pass()) << "nobody let go of the driver";
  EXPECT_EQ(*samples, 1);
}

TEST(Sampler, EndsWhileALookHangsAndLeavesItBehind) {
  const auto door = std::make_shared<Door>();
  const auto has_ended = std::make_shared<Door>();
  {
    SamplerHooks hooks;
    hooks.take_sample = [door] {
      (void)door->pass();
      return Snapshot{};
    };
    hooks.seen = [has_ended](const Sampled&) { has_ended->open(); };
    const Sampler sampler(std::move(hooks), milliseconds(1));
    EXPECT_EQ(sampler.latest(), nullptr);
  }
  door->open();
  EXPECT_TRUE(has_ended->pass()) << "what the look uses is still there, and it goes on";
}

TEST(Sampler, SaysWhetherItLeftALookBehind) {
  const auto door = std::make_shared<Door>();
  SamplerHooks hooks;
  hooks.take_sample = [door] {
    (void)door->pass();
    return Snapshot{};
  };
  Sampler sampler(std::move(hooks), hours(1));
  EXPECT_FALSE(sampler.end());
  door->open();
  EXPECT_TRUE(eventually([&] { return sampler.end(); })) << "the look did not end";
}

TEST(Sampler, OwnsNoHookAnyMoreOnceItHasEnded) {
  for (int i = 0; i < 100; ++i) {
    const auto samples = std::make_shared<std::atomic<int>>(0);
    auto sampler = std::make_unique<Sampler>(counting(samples), hours(1));
    ASSERT_NE(next_sample(*sampler), nullptr);
    sampler.reset();
    EXPECT_EQ(samples.use_count(), 1);  // no thread destroys it during the teardown
  }
}

}  // namespace
}  // namespace vram::watch
