#include "pages/page.hpp"

#include "base/file.hpp"
#include "base/varint.hpp"
#include "explain/explain.hpp"
#include "explain/moment/device_view.hpp"
#include "explain/testing/caching_allocator.hpp"
#include "explain/testing/zoo.hpp"
#include "pages/device_blocks.hpp"
#include "pages/html.hpp"
#include "pages/overview.hpp"
#include "trace/figures.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vram::pages {
namespace {

using Numbers = std::vector<uint64_t>;

// The columns of a block, as the page reads them.
std::vector<Numbers> decoded(const Block& block) {
  const std::span bytes(reinterpret_cast<const uint8_t*>(block.bytes.data()), block.bytes.size());
  VarintReader reader(bytes);
  std::vector<Numbers> columns;
  while (reader.left() > 0) {
    VarintReader column(reader.take(reader.get()));
    Numbers& numbers = columns.emplace_back();
    while (column.left() > 0) numbers.push_back(column.get());
    EXPECT_FALSE(column.failed());
  }
  EXPECT_FALSE(reader.failed());
  return columns;
}

Numbers summed(const Numbers& differences) {
  Numbers values;
  uint64_t value = 0;
  for (const uint64_t difference : differences) values.push_back(value += difference);
  return values;
}

Numbers unzigzagged(const Numbers& coded) {
  Numbers values;
  uint64_t value = 0;
  for (const uint64_t each : coded) values.push_back(value = wrapping_sum(value, unzigzag(each)));
  return values;
}

// A random program on two streams, with blocks that others await, and emptied caches.
trace::Trace random_trace(uint32_t seed) {
  trace::Trace trace;
  trace.has_time = true;
  trace.devices.emplace_back();
  (void)trace.tables.streams.intern(7);
  explain::testing::CachingAllocator allocator({}, seed % 2 == 1);
  std::mt19937 random(seed);
  std::vector<uint64_t> live;
  std::vector<uint64_t> awaited;
  const auto take = [&](std::vector<uint64_t>& from) {
    std::swap(from[random() % from.size()], from.back());
    const uint64_t block = from.back();
    from.pop_back();
    return block;
  };
  for (int i = 0; i < 3000; ++i) {
    if (i == 100) allocator.record_into(&trace);
    const auto dice = random() % 100;
    if (dice < 50 || live.empty()) {
      live.push_back(allocator.allocate(1 + random() % (1 << (9 + random() % 14)), random() % 2));
    } else if (dice < 85) {
      allocator.free(take(live));
    } else if (dice < 93) {
      awaited.push_back(take(live));
      allocator.free(awaited.back(), true);
    } else if (!awaited.empty()) {
      allocator.complete(take(awaited));
    }
    if (dice == 99) allocator.empty_cache();
  }
  for (size_t i = 0; i < trace.events.size(); ++i)
    trace.events[i].time_ns = 1'000'000'000 + static_cast<int64_t>(i) * 1'500;
  trace.devices.front().event_count = trace.events.size();
  allocator.write_end_state(trace.devices.front());
  return trace;
}

struct Made {
  trace::Trace trace;
  explain::Report report;
  Page page;

  explicit Made(trace::Trace of, uint64_t part_positions = kPartPositions)
      : trace(std::move(of)), report(explain::explain(trace).value()) {
    PageMaker maker(PageKind::kReport, "test", part_positions);
    maker.add(trace, report);
    page = maker.take();
  }
  [[nodiscard]] std::vector<Numbers> columns(const std::string& name) const {
    for (const auto* blocks : {&page.first, &page.rest})
      for (const Block& block : *blocks)
        if (block.name == "r0.device0." + name) return decoded(block);
    ADD_FAILURE() << "no block " << name;
    return {};
  }
  [[nodiscard]] const Json& device() const { return page.head["recordings"][0]["devices"][0]; }
};

// From the blocks, as the page computes it.
explain::Totals totals_of(const Made& made, uint64_t position) {
  const uint64_t part = position / made.device()["part_positions"].get<uint64_t>();
  const auto lifetimes = made.columns(fmt::format("lifetimes{}", part));
  const auto kinds = made.columns("kinds");
  const Numbers begins = summed(lifetimes[1]);
  explain::Totals totals;
  for (size_t i = 0; i < begins.size(); ++i) {
    const uint64_t life = lifetimes[2][i];
    const uint64_t wait = lifetimes[3][i];
    const uint64_t end = life == 0 ? UINT64_MAX : begins[i] + life;
    if (begins[i] > position || end <= position) continue;
    const uint64_t requested = life != 0 ? end - wait : wait == 0 ? end : begins[i] + wait - 1;
    const uint64_t kind = lifetimes[4][i];
    totals.requested_bytes += kinds[0][kind];
    totals.active_bytes += kinds[1][kind];
    if (requested > position) totals.allocated_bytes += kinds[1][kind];
  }
  const auto segments = made.columns("segments");
  const Numbers positions = summed(segments[0]);
  for (size_t i = 0; i < positions.size() && positions[i] <= position; ++i)
    totals.reserved_bytes += (segments[1][i] & 1) == 0 ? segments[3][i] : -segments[3][i];
  return totals;
}

class PageOfARandomProgram : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, PageOfARandomProgram, ::testing::Range(1U, 7U));

TEST_P(PageOfARandomProgram, RestoresTheTotalsOfEveryMoment) {
  const Made made(random_trace(GetParam()));
  const explain::DeviceView view(made.trace, made.report, 0);
  explain::TotalsWalker walker(made.trace.events_of(view.device), view.history);
  EXPECT_EQ(totals_of(made, 0), walker.totals());
  for (uint64_t position = 1; !walker.at_end(); ++position) {
    (void)walker.step();
    if (position % 97 == 0) {
      EXPECT_EQ(totals_of(made, position), walker.totals()) << position;
    }
  }
}

TEST_P(PageOfARandomProgram, RestoresTheTotalsFromThePartOfTheMoment) {
  const Made made(random_trace(GetParam()), 512);
  const explain::DeviceView view(made.trace, made.report, 0);
  explain::TotalsWalker walker(made.trace.events_of(view.device), view.history);
  for (uint64_t position = 1; !walker.at_end(); ++position) {
    (void)walker.step();
    if (position % 512 == 0 || position % 512 == 511 || position % 97 == 0) {
      EXPECT_EQ(totals_of(made, position), walker.totals()) << position;
    }
  }
  // The times of all parts are those of the whole, and blocks keep their numbers.
  const Made whole(random_trace(GetParam()));
  const uint64_t positions = view.device.event_count + 1;
  Numbers times;
  std::vector<bool> is_found(view.history.lifetimes.size());
  for (uint64_t part = 0; part * 512 < positions; ++part) {
    const Numbers of_part = summed(made.columns(fmt::format("times{}", part))[0]);
    times.insert(times.end(), of_part.begin(), of_part.end());
    for (const uint64_t id : summed(made.columns(fmt::format("lifetimes{}", part))[0]))
      is_found.at(id) = true;
  }
  EXPECT_EQ(times, summed(whole.columns("times0")[0]));
  EXPECT_EQ(std::ranges::count(is_found, false), 0);
}

TEST_P(PageOfARandomProgram, HasBinsWithTheLargestTotalsAndTheGroupsThere) {
  const Made made(random_trace(GetParam()));
  const auto columns = made.columns("overview");
  const uint64_t size = made.device()["bin_positions"];
  const Numbers peaks = unzigzagged(columns[1]);
  EXPECT_EQ(*std::ranges::max_element(peaks),
            made.report.devices[0].peak.requested.totals.requested_bytes);
  EXPECT_EQ(std::ranges::max(unzigzagged(columns[5])),
            made.report.devices[0].peak.reserved.totals.reserved_bytes);
  for (size_t bin = 0; bin < peaks.size(); bin += 31) {
    const uint64_t position = bin * size + columns[0][bin];
    EXPECT_EQ(totals_of(made, position).requested_bytes, peaks[bin]);
  }
  // Of a dimension whose groups are all shown, the groups add up to the peak of each bin.
  const Json& dimensions = made.device()["dimensions"];
  for (size_t dimension = 0; dimension < dimensions.size(); ++dimension) {
    const size_t groups = dimensions[dimension]["groups"].size();
    const Numbers& coded = columns[7 + dimension];
    EXPECT_EQ(coded.size(), std::min(groups, kShownGroups) * peaks.size());
    if (groups > kShownGroups) continue;
    Numbers sums(peaks.size());
    for (size_t group = 0; group < groups; ++group) {
      const auto begin = coded.begin() + static_cast<int64_t>(group * peaks.size());
      const Numbers values =
          unzigzagged(Numbers(begin, begin + static_cast<int64_t>(peaks.size())));
      std::ranges::transform(sums, values, sums.begin(), std::plus<>());
    }
    EXPECT_EQ(sums, peaks);
  }
}

TEST(Page, HasTheHoldersOfTheReportAsGroups) {
  Made made(
      explain::testing::TrainingRun({.annotated = true, .leak_bytes = 1 << 20, .has_stacks = true})
          .record()
          .trace);
  const auto& holders = made.report.devices[0].at_peak.breakdowns;
  const Json& sites = made.device()["dimensions"][0];
  EXPECT_EQ(sites["id"], "user_frame");
  std::vector<std::string> names = sites["groups"];
  for (const explain::Breakdown& breakdown : holders) {
    if (breakdown.by != explain::Dimension::kUserFrame) continue;
    for (const explain::Holder& holder : breakdown.holders)
      EXPECT_NE(std::ranges::find(names, holder.name), names.end()) << holder.name;
  }
}

TEST(Page, HasTheSamplesOfTheDeviceInOrderOfTime) {
  trace::Trace trace = random_trace(1);
  const auto used = trace.tables.strings.intern(trace::figures::kUsed);
  const auto other = trace.tables.strings.intern(trace::figures::kTotal);
  const auto driver = trace.tables.strings.intern(trace::figures::kDriver);
  const int64_t begin = trace.events[0].time_ns;
  trace.figures = {
      {begin + 1'000, 10, driver, 0}, {begin + 3'000, 70, used, 0},
      {begin + 1'000, 90, used, 0},   {begin + 2'000, 80, used, 1},
      {begin + 2'000, 99, other, 0},  {begin, trace::figures::kUnknown, driver, 0},
      {begin - 500, 60, used, 0},     {begin + 4'000, trace::figures::kUnknown, used, 0}};
  const auto columns = Made(std::move(trace)).columns("samples");
  EXPECT_EQ(unzigzagged(columns[0]), (Numbers{static_cast<uint64_t>(-500), 1'000, 3'000}));
  EXPECT_EQ(unzigzagged(columns[1]), (Numbers{60, 100, 80}));
}

TEST(Page, KeepsTheLargestOfManySamples) {
  trace::Trace trace = random_trace(1);
  const auto used = trace.tables.strings.intern(trace::figures::kUsed);
  for (size_t i = 0; i < 2 * kMaxSamples; ++i)
    trace.figures.push_back({static_cast<int64_t>(i), i % 2, used, 0});
  const auto columns = Made(std::move(trace)).columns("samples");
  EXPECT_EQ(unzigzagged(columns[1]), Numbers(kMaxSamples, 1));
}

TEST(Page, IsAFileThatVramReplaces) {
  const Made made(random_trace(1));
  std::string text;
  const auto written = write_html(made.page, [&](std::string_view part) {
    text += part;
    return Result<>();
  });
  ASSERT_TRUE(written);
  EXPECT_TRUE(is_own_format(std::string_view(text).substr(0, kFormatBytes), ""));
  EXPECT_LT(text.find(R"(id="head")"), text.find(R"(id="r0.device0.lifetimes0")"));
  EXPECT_EQ(text.find("VERSION_OF"), std::string::npos);
}

TEST(Page, ReportsAnErrorOfWriting) {
  const Made made(random_trace(1));
  const auto written = write_html(
      made.page, [](std::string_view) -> Result<> { return fail(Code::kIo, "the disk is full"); });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "the disk is full");
}

}  // namespace
}  // namespace vram::pages
