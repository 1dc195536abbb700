// Which processes are idle, and which ones are asked for how much: by hand-made snapshots. Real
// processes and pages: tests/python/test_free.py.
#include "watch/reclaim.hpp"

#include "base/time.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vram::watch {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

using Percent = std::optional<uint32_t>;

// One GPU that is so busy, one process that is.
bool idles(Percent device, Percent process, std::optional<uint64_t> held,
           std::optional<uint64_t> quiet_ns) {
  Snapshot snapshot;
  snapshot.devices.resize(1);
  snapshot.devices[0].sample.busy_percent = device;
  Process user;
  user.uses.resize(1);
  user.uses[0].process.busy_percent = process;
  return is_idle(user, snapshot, held, quiet_ns);
}

TEST(Idle, WhoDoesNotPostIsWhatTheDriverSays) {
  EXPECT_TRUE(idles(0, {}, 256 * kMiB, {}));
  EXPECT_TRUE(idles(50, 0, 256 * kMiB, {})) << "another process is busy there";
  EXPECT_FALSE(idles(0, 1, 256 * kMiB, {}));
  EXPECT_FALSE(idles(50, {}, 256 * kMiB, {})) << "it may be this one";
  EXPECT_FALSE(idles({}, {}, 256 * kMiB, {})) << "nobody knows";
}

TEST(Idle, WhoPostsIsIdleAfterAMinuteWithoutWork) {
  EXPECT_TRUE(idles({}, {}, 256 * kMiB, 60 * kSecondNs));
  EXPECT_FALSE(idles({}, {}, 256 * kMiB, 59 * kSecondNs));
  EXPECT_FALSE(idles(0, 0, 256 * kMiB, 59 * kSecondNs)) << "between two steps";
  EXPECT_FALSE(idles({}, 7, 256 * kMiB, 600 * kSecondNs)) << "computes without posting";
}

TEST(Idle, WhoHoldsLittleDoesNotMatter) {
  EXPECT_FALSE(idles(0, 0, 255 * kMiB, {}));
  EXPECT_FALSE(idles(0, 0, {}, {}));
}

PostedDevice posted(uint64_t number, std::optional<uint32_t> index,
                    std::optional<uint64_t> cached) {
  PostedDevice device;
  device.number = number;
  device.index = index;
  device.figures.cached_bytes = cached;
  return device;
}

Holder holder(uint32_t pid, std::vector<PostedDevice> devices, std::string folder = "/board") {
  Holder holder;
  holder.facts.pid = pid;
  holder.posted = std::move(devices);
  holder.folder = std::move(folder);
  return holder;
}

// 1 can't be asked; 2 caches 30 of GPU 5, which it calls 0; 3 caches 10 of GPU 5 and 40 of GPU 6;
// 4 does not say; 5 caches nothing.
Reclaimable machine() {
  Reclaimable all;
  all.holders = {holder(1, {posted(0, 5, 90 * kMiB)}, ""), holder(2, {posted(0, 5, 30 * kMiB)}),
                 holder(3, {posted(0, 5, 10 * kMiB), posted(1, 6, 40 * kMiB)}),
                 holder(4, {posted(0, std::nullopt, std::nullopt)}), holder(5, {posted(0, 5, 0)})};
  return all;
}

std::vector<uint32_t> pids_of(const Result<std::vector<TrimOrder>>& orders) {
  std::vector<uint32_t> pids;
  for (const TrimOrder& order : orders.value()) pids.push_back(order.pid);
  return pids;
}

TEST(Choose, ThoseThatCacheMostUntilItIsEnough) {
  using ::testing::ElementsAre;
  EXPECT_THAT(pids_of(choose(machine(), {})), ElementsAre(3, 2, 4));
  EXPECT_THAT(pids_of(choose(machine(), {.pids = {}, .device = {}, .bytes = 50 * kMiB})),
              ElementsAre(3));
  EXPECT_THAT(pids_of(choose(machine(), {.pids = {}, .device = {}, .bytes = 51 * kMiB})),
              ElementsAre(3, 2));
}

TEST(Choose, ADeviceIsNamedAsTheProcessNamesIt) {
  const auto orders = choose(machine(), {.pids = {}, .device = 6, .bytes = {}}).value();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].pid, 3u);
  EXPECT_EQ(orders[0].device, 1u);
  EXPECT_THAT(pids_of(choose(machine(), {.pids = {}, .device = 5, .bytes = {}})),
              ::testing::ElementsAre(2, 3));
}

TEST(Choose, NamedOnesAreAskedInAnyCaseOrNobodyIs) {
  EXPECT_THAT(pids_of(choose(machine(), {.pids = {5, 4}, .device = {}, .bytes = {}})),
              ::testing::ElementsAre(5, 4));
  EXPECT_EQ(choose(machine(), {.pids = {5, 1}, .device = {}, .bytes = {}}).error().code,
            Code::kNotFound);
  EXPECT_EQ(choose(machine(), {.pids = {2}, .device = 6, .bytes = {}}).error().code,
            Code::kNotFound);
}

TEST(Holder, SumsThatCantBeAreUnknown) {
  EXPECT_EQ(holder(1, {posted(0, 5, 1), posted(1, 6, 2)}).cached_bytes(), 3u);
  EXPECT_EQ(holder(1, {posted(0, 5, UINT64_MAX - 1), posted(1, 6, 2)}).cached_bytes(),
            std::nullopt);
  EXPECT_EQ(holder(1, {posted(0, 5, 1), posted(1, 6, std::nullopt)}).cached_bytes(), std::nullopt);
  EXPECT_EQ(holder(1, {}).cached_bytes(), std::nullopt);
}

}  // namespace
}  // namespace vram::watch
