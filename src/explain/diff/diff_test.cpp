#include "explain/diff/diff.hpp"

#include "base/bytes.hpp"
#include "explain/diff/baseline.hpp"
#include "explain/testing/trace_builder.hpp"
#include "trace/lost_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PeakSite named(std::string name, uint64_t bytes) {
  return {.name = std::move(name), .calls = {}, .bytes = bytes, .count = 1};
}

DevicePeak gpu(uint32_t ordinal, std::vector<PeakSite> sites, SiteBasis basis = SiteBasis::kName) {
  DevicePeak peak;
  peak.ordinal = ordinal;
  for (const PeakSite& site : sites) peak.requested_bytes += site.bytes;
  peak.reserved_bytes = peak.requested_bytes;
  peak.sites[static_cast<size_t>(basis)] = std::move(sites);
  return peak;
}

RunPeaks run(std::vector<DevicePeak> devices, std::optional<uint64_t> rank = {},
             std::string path = "run.vtrace") {
  RunPeaks peaks;
  peaks.path = std::move(path);
  peaks.rank = rank;
  for (DevicePeak& device : devices) device.rank = rank;
  peaks.devices = std::move(devices);
  return peaks;
}

RunPeaks run_of(uint64_t bytes, std::optional<uint64_t> rank = {}) {
  return run({gpu(0, {named("x", bytes)})}, rank);
}

Side side(std::vector<RunPeaks> runs) { return make_side("side", std::move(runs)); }

Diff diff_of(std::vector<RunPeaks> a, std::vector<RunPeaks> b, const char* limit = "0") {
  return compare(side(std::move(a)), side(std::move(b)), parse_limit(limit).value());
}

// "GPU 0 +5", "gone rank 1 GPU 0 -7"
std::vector<std::string> lines(const Diff& diff) {
  std::vector<std::string> texts;
  for (const DeviceChange& change : diff.devices) {
    const char* const presence = !change.a ? "new " : !change.b ? "gone " : "";
    texts.push_back(fmt::format("{}{} {:+}", presence, device_text(change.latest()),
                                growth(change.a_bytes(), change.b_bytes())));
  }
  return texts;
}

TEST(ParseLimit, RefusesWhatIsNoLimit) {
  for (const char* text : {"nan%", "nan", "NaN%", "-1%", "-1MiB", "inf%", "inf", "1e99%", "", "%",
                           "5", "0.5", "x", "2%,3%", "1MiB,2MiB", "2%,", ",2%", "2 %%", "0x10%"}) {
    EXPECT_FALSE(parse_limit(text)) << text;
  }
  EXPECT_EQ(parse_limit("2%")->share, 0.02);
  EXPECT_EQ(parse_limit("0")->bytes, 0U);
  EXPECT_EQ(parse_limit("0%")->share, 0.0);
  const Limit both = parse_limit("64MiB,2.5%").value();
  EXPECT_EQ(both.share, 0.025);
  EXPECT_EQ(both.bytes, 64 * kMiB);
}

TEST(Diff, OfTheSameIsNothing) {
  const Diff diff = diff_of({run_of(100)}, {run_of(100)});
  EXPECT_FALSE(diff.has_regression());
  EXPECT_THAT(lines(diff), ElementsAre("GPU 0 +0"));
}

TEST(Diff, AnyGrowthIsAboveZero) {
  EXPECT_TRUE(diff_of({run_of(100)}, {run_of(101)}).has_regression());
  EXPECT_TRUE(diff_of({run_of(100)}, {run_of(101)}, "0%").has_regression());
  EXPECT_FALSE(diff_of({run_of(100)}, {run_of(99)}).has_regression());
}

TEST(Diff, LimitsAreNotExceededByReachingThem) {
  EXPECT_FALSE(diff_of({run_of(1000)}, {run_of(1020)}, "2%").has_regression());
  EXPECT_TRUE(diff_of({run_of(1000)}, {run_of(1021)}, "2%").has_regression());
  EXPECT_FALSE(diff_of({run_of(1000)}, {run_of(1050)}, "2%,50B").has_regression());
  EXPECT_TRUE(diff_of({run_of(1000)}, {run_of(1051)}, "2%,50B").has_regression());
}

// What runs differ by without a change is no regression: 3 standard deviations of their peaks.
TEST(Diff, AllowsWhatRunsVaryBy) {
  const std::vector<RunPeaks> noisy = {run_of(1000), run_of(1010), run_of(990), run_of(1012),
                                       run_of(985)};
  const Diff within = diff_of(noisy, {run_of(1040)});
  ASSERT_EQ(within.devices.front().a->runs, 5U);
  EXPECT_EQ(within.devices.front().a_bytes(), 1000U);
  EXPECT_EQ(within.devices.front().a->mad_bytes, 10U);
  EXPECT_EQ(within.devices.front().limit_bytes, 44U);
  EXPECT_FALSE(within.has_regression());
  EXPECT_TRUE(diff_of(noisy, {run_of(1045)}).has_regression());
}

TEST(Diff, RanksMatchInAnyOrder) {
  const Diff diff = diff_of({run_of(10, 0), run_of(20, 1), run_of(30, 2)},
                            {run_of(31, 2), run_of(10, 0), run_of(20, 1)});
  EXPECT_THAT(lines(diff), ElementsAre("rank 2 GPU 0 +1", "rank 0 GPU 0 +0", "rank 1 GPU 0 +0"));
}

TEST(Diff, TheOnlyGpuMatchesWhateverItsNumberOrRank) {
  EXPECT_THAT(lines(diff_of({run({gpu(0, {named("x", 5)})}, 0)}, {run({gpu(3, {named("x", 9)})})})),
              ElementsAre("GPU 3 +4"));
}

TEST(Diff, DevicesOfOneSideOnly) {
  const Diff lost = diff_of({run({gpu(0, {named("x", 5)}), gpu(1, {named("x", 7)})})},
                            {run({gpu(0, {named("x", 5)})})}, "50%");
  EXPECT_THAT(lines(lost), ElementsAre("GPU 0 +0", "gone GPU 1 -7"));
  EXPECT_THAT(unjudged_devices(lost), ElementsAre("GPU 1"));
  const Diff more = diff_of({run({gpu(0, {named("x", 5)})})},
                            {run({gpu(0, {named("x", 5)}), gpu(1, {named("x", 7)})})}, "50%");
  EXPECT_THAT(lines(more), ElementsAre("new GPU 1 +7", "GPU 0 +0"));
  EXPECT_TRUE(more.has_regression());
  EXPECT_THAT(unjudged_devices(more), IsEmpty());
}

TEST(Diff, OnlyTheNewSideRanOutOfMemory) {
  RunPeaks failed = run_of(90);
  failed.devices.front().ooms = 1;
  EXPECT_EQ(diff_of({run_of(100)}, {failed}).devices.front().regression, Regression::kOom);
  EXPECT_FALSE(diff_of({failed}, {failed}).has_regression());
}

// Of five runs each: one against five is no chance (Fisher's exact test: 0.024), one against two
// is.
TEST(Diff, MoreRunsOfTheNewSideRanOutOfMemory) {
  const auto runs = [](int failed) {
    std::vector<RunPeaks> all(5, run_of(90));
    for (int i = 0; i < failed; ++i) all[static_cast<size_t>(i)].devices[0].ooms = 1;
    return all;
  };
  EXPECT_TRUE(diff_of(runs(1), runs(5)).has_regression());
  EXPECT_FALSE(diff_of(runs(1), runs(2)).has_regression());
  EXPECT_FALSE(diff_of(runs(5), runs(5)).has_regression());
  EXPECT_FALSE(diff_of(runs(5), runs(1)).has_regression());
  EXPECT_TRUE(diff_of(runs(0), runs(1)).has_regression());
}

TEST(Diff, TotalsAreComparedWithoutCommonSites) {
  const RunPeaks stacks = run({gpu(0, {named("x", 5)}, SiteBasis::kStack)});
  const Diff diff = diff_of({stacks}, {run_of(9)});
  EXPECT_FALSE(diff.devices.front().basis);
  EXPECT_THAT(diff.devices.front().sites, IsEmpty());
  EXPECT_TRUE(diff.has_regression());
}

TEST(MakeSide, RunsThatOverlapInTimeAreRanks) {
  const auto at = [](int64_t begin_ns, int64_t end_ns, const char* path) {
    RunPeaks peaks = run({gpu(0, {named("x", 5)})}, {}, path);
    peaks.begin_ns = begin_ns;
    peaks.end_ns = end_ns;
    return peaks;
  };
  const Side together = side({at(0, 10, "b"), at(5, 20, "a")});
  ASSERT_EQ(together.devices.size(), 2U);
  EXPECT_EQ(together.devices[1].peak.rank, 1U);
  const Side one_by_one = side({at(0, 10, "b"), at(11, 20, "a")});
  ASSERT_EQ(one_by_one.devices.size(), 1U);
  EXPECT_EQ(one_by_one.devices[0].runs, 2U);
}

// A small training program, whose lines and batch can be changed.
// Two runs of two processes: (0, 10), (1, 11), and later (20, 30), (21, 31).
TEST(MakeSide, RunsThatOverlapInGroupsAreRunsOfRanks) {
  const auto at = [](int64_t begin_ns, const char* path, uint64_t bytes) {
    RunPeaks peaks = run({gpu(0, {named("x", bytes)})}, {}, path);
    peaks.begin_ns = begin_ns;
    peaks.end_ns = begin_ns + 10;
    return peaks;
  };
  const Side two = side({at(0, "1/a", 5), at(1, "1/b", 50), at(21, "2/b", 52), at(20, "2/a", 7)});
  ASSERT_EQ(two.devices.size(), 2u);
  EXPECT_EQ(two.devices[0].runs, 2u);
  EXPECT_EQ(two.devices[0].peak.requested_bytes, 5u);
  EXPECT_EQ(two.devices[1].peak.requested_bytes, 50u);
  const Side uneven = side({at(0, "1/a", 5), at(1, "1/b", 50), at(20, "2/a", 7)});
  ASSERT_EQ(uneven.devices.size(), 1u);
  EXPECT_EQ(uneven.devices[0].runs, 3u);
}

RunPeaks recorded(uint32_t first_line, uint64_t batch, uint64_t steps, bool has_stacks = true) {
  testing::TraceBuilder builder;
  const auto line = [&](uint32_t number, const char* function) {
    if (!has_stacks) return trace::StackId{0};
    return builder.stack(
        {{"/r/model.py", first_line + number, function}, {"/r/train.py", 5, "<module>"}});
  };
  builder.alloc(4096, line(0, "weights"));
  for (uint64_t step = 0; step < steps; ++step) {
    builder.begin("ProfilerStep#" + std::to_string(step));
    std::vector<testing::TraceBuilder::Block> blocks;
    for (uint32_t layer = 0; layer < 3; ++layer)
      blocks.push_back(builder.alloc(batch * (layer + 1), line(1 + layer, "forward")));
    builder.free_all(&blocks);
    builder.end("ProfilerStep#" + std::to_string(step));
  }
  return find_peaks(builder.build().trace).value();
}

std::vector<std::string> site_lines(const Diff& diff) {
  std::vector<std::string> texts;
  for (const SiteChange& change : diff.devices.front().sites)
    texts.push_back(
        fmt::format("{} {}->{}", change.latest().name, change.a_bytes(), change.b_bytes()));
  return texts;
}

TEST(Diff, OfRecordingsWhoseLinesMovedAndStepsDiffer) {
  const Diff diff = diff_of({recorded(10, 512, 4)}, {recorded(33, 1024, 9)});
  EXPECT_EQ(diff.devices.front().basis, SiteBasis::kStack);
  EXPECT_THAT(site_lines(diff),
              ElementsAre("model.py:36 forward 1536->3072", "model.py:35 forward 1024->2048",
                          "model.py:34 forward 512->1024", "model.py:33 weights 4096->4096"));
}

TEST(Diff, OfRecordingsWithoutStacksIsByPosition) {
  const Diff diff = diff_of({recorded(0, 512, 4, false)}, {recorded(0, 1024, 4, false)});
  EXPECT_EQ(diff.devices.front().basis, SiteBasis::kPosition);
  EXPECT_THAT(site_lines(diff),
              ElementsAre("3 KiB blocks, allocation 3 of the step 1536->3072",
                          "2 KiB blocks, allocation 2 of the step 1024->2048",
                          "1 KiB blocks, allocation 1 of the step 512->1024",
                          "4 KiB blocks, allocation 1 of the recording 4096->4096"));
}

// Differences of sites add up to that of the peaks, in each way to match them.
TEST(Diff, SitesAddUpToTheirPeaks) {
  const RunPeaks peaks = recorded(10, 512, 4);
  const DevicePeak& device = peaks.devices.front();
  for (const auto& sites : device.sites) {
    if (sites.empty()) continue;
    const uint64_t sum = std::accumulate(sites.begin(), sites.end(), uint64_t{0},
                                         [](uint64_t n, const auto& s) { return n + s.bytes; });
    EXPECT_EQ(sum, device.requested_bytes);
  }
  EXPECT_EQ(device.requested_bytes, 4096U + 6 * 512);
}

TEST(FindPeaks, OfAnEmptyRecordingFails) {
  trace::Trace trace;
  trace.origin.path = "empty.vtrace";
  const auto peaks = find_peaks(trace);
  ASSERT_FALSE(peaks);
  EXPECT_THAT(peaks.error().message, HasSubstr("neither events nor segments"));
}

TEST(FindPeaks, SaysWhyARecordingIsIncomplete) {
  testing::TraceBuilder builder;
  builder.alloc(512);
  auto made = builder.build();
  EXPECT_EQ(find_peaks(made.trace)->incomplete, "");
  made.trace.origin.notes = {{"host memory is left out", 3}};
  EXPECT_EQ(find_peaks(made.trace)->incomplete, "");
  made.trace.origin.notes.push_back({trace::kLostToDisk, 1200});
  made.trace.origin.notes.push_back({trace::kLostInKernel, 34});
  EXPECT_THAT(find_peaks(made.trace)->incomplete, HasSubstr("1,234 events were lost"));
  made.trace.devices.front().ring_overflowed = true;
  EXPECT_THAT(find_peaks(made.trace)->incomplete, HasSubstr("overflowed"));
  made.trace.origin.truncated_at_byte = 1234;
  EXPECT_THAT(find_peaks(made.trace)->incomplete, HasSubstr("truncated at byte 1,234"));
}

class BaselineTest : public ::testing::Test {
 protected:
  static Side reread(const std::string& text) { return read_baseline(text, "b.toml").value(); }
  static std::string error_of(const std::string& text) {
    const auto side = read_baseline(text, "b.toml");
    return side ? "" : side.error().message;
  }
  // The text with one part replaced.
  [[nodiscard]] std::string with(const std::string& part, const std::string& other) const {
    std::string text = text_;
    const size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return text.replace(at, part.size(), other);
  }
  Side side_ = side({recorded(10, 512, 4)});
  std::string text_ = write_baseline(side_);
};

TEST_F(BaselineTest, IsTheRecordingAgain) {
  EXPECT_EQ(write_baseline(reread(text_)), text_);
  const Diff diff = compare(reread(text_), side_, parse_limit("0").value());
  EXPECT_FALSE(diff.has_regression());
  EXPECT_EQ(diff.devices.front().basis, SiteBasis::kStack);
  for (const SiteChange& site : diff.devices.front().sites)
    EXPECT_EQ(kind_of(site), ChangeKind::kSame) << site.latest().name;
}

TEST_F(BaselineTest, LeavesOutSmallSitesButNotTheirBytes) {
  std::vector<PeakSite> sites = {named("large", 1'000'000)};
  for (int i = 0; i < 50; ++i) sites.push_back(named("small " + std::to_string(i), 100));
  const Side many = side({run({gpu(0, sites)})});
  const std::string text = write_baseline(many);
  EXPECT_THAT(text, ::testing::Not(HasSubstr("small 7")));
  const Diff diff = compare(reread(text), many, parse_limit("0").value());
  ASSERT_EQ(diff.devices.front().sites.size(), 2U);
  EXPECT_EQ(kind_of(diff.devices.front().sites[1]), ChangeKind::kSame);
  EXPECT_EQ(diff.devices.front().sites[1].a->name, kOtherSites);
}

// A site of 9 bytes is below 1/1000 of the peak: the baseline sums it up, and it grows to 11.
TEST_F(BaselineTest, ASiteThatPassesTheListingThresholdIsNotNew) {
  const Side before = side({run({gpu(0, {named("big", 9'991), named("small", 9)})})});
  const Side a = read_baseline(write_baseline(before), "baseline").value();
  const auto sites_of = [&](uint64_t bytes) {
    const Side b = side({run({gpu(0, {named("big", 9'991), named("small", bytes)})})});
    const auto comparison = compare(a, b, {});
    std::vector<std::string> names;
    for (const SiteChange& site : comparison.devices.at(0).sites)
      names.push_back(
          fmt::format("{} {:+}", site.latest().name, growth(site.a_bytes(), site.b_bytes())));
    return names;
  };
  EXPECT_THAT(sites_of(11), ElementsAre("smaller sites +2", "big +0"));
  EXPECT_THAT(sites_of(500), ElementsAre("small +500", "smaller sites -9", "big +0"));
}

TEST_F(BaselineTest, IsSmallWhateverTheRecording) {
  std::vector<RunPeaks> runs;
  for (uint64_t rank = 0; rank < 64; ++rank) {
    std::vector<PeakSite> sites;
    for (int i = 0; i < 500; ++i) sites.push_back(named("site " + std::to_string(i), 1000));
    runs.push_back(run({gpu(0, sites)}, rank));
  }
  EXPECT_LE(write_baseline(side(runs)).size(), 128U << 10);
}

TEST_F(BaselineTest, AHigherPeakByHandIsABudget) {
  const Side budget = reread(with("peak_requested_bytes = 7168", "peak_requested_bytes = 9000"));
  EXPECT_EQ(budget.devices.front().peak.requested_bytes, 9000U);
  EXPECT_FALSE(
      compare(budget, side({recorded(10, 600, 4)}), parse_limit("0").value()).has_regression());
}

TEST_F(BaselineTest, EditsThatContradictAreRefused) {
  EXPECT_THAT(error_of(with("peak_requested_bytes = 7168", "peak_requested_bytes = 70")),
              HasSubstr("the sites hold 7168 bytes, more than"));
  EXPECT_THAT(error_of(with("version = 1", "version = 7")),
              HasSubstr("expected version = 1, found 7"));
  EXPECT_THAT(error_of(with("version = 1", "")), HasSubstr("'version' is missing"));
  EXPECT_THAT(error_of(with("steps = 4", "stps = 4")), HasSubstr("did you mean 'steps'"));
  EXPECT_THAT(error_of(with("steps = 4", "steps = -4")), HasSubstr("whole number"));
  EXPECT_THAT(error_of(with("runs = 1", "runs = nan")), HasSubstr("whole number"));
  EXPECT_THAT(error_of(with("runs = 1", "runs = 1.5")), HasSubstr("whole number"));
  EXPECT_THAT(error_of(with("kind = \"gpu\"", "kind = \"tpu\"")), HasSubstr("\"gpu\" or \"host\""));
  EXPECT_THAT(error_of(with("model.py:10 weights", "weights")),
              HasSubstr("expected a call such as"));
  EXPECT_THAT(error_of(with("bytes = 4096", "bytes = 1e300")), HasSubstr("whole number"));
  EXPECT_THAT(error_of(text_ + text_.substr(text_.find("[[device]]"))), HasSubstr("twice"));
  EXPECT_THAT(error_of(with("ordinal = 0", "ordinal = 4294967296")), HasSubstr("at most"));
  EXPECT_THAT(error_of(with("runs = 1", "runs = 0")), HasSubstr("1 to 1000000, found 0"));
  EXPECT_THAT(error_of(with("runs = 1", "runs = 9007199254740992")), HasSubstr("1 to 1000000"));
  EXPECT_THAT(error_of(with("runs_with_oom = 0", "runs_with_oom = 2")),
              HasSubstr("runs_with_oom = 2 is more than runs = 1"));
  EXPECT_THAT(error_of(with("peak_mad_bytes = 0", "peak_mad_bytes = 512")),
              HasSubstr("one run has no deviation"));
  std::string rows;  // 2048 of 2^53 bytes are 2^64, which is 0 in 64 bits
  for (int i = 0; i < 2048; ++i) rows += "{ bytes = 9007199254740992, count = 1, name = \"x\" },\n";
  EXPECT_THAT(error_of(with("sites = [\n", "sites = [\n" + rows)), HasSubstr("more than"));
  EXPECT_THAT(error_of("<<<<<<< HEAD\n" + text_), HasSubstr("expected TOML"));
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of("version = 1\ndevice = []\n"), "");
  EXPECT_NE(error_of("version = 1\ndevice = [3]\n"), "");
}

// Any beginning of the file is a baseline or an error.
TEST_F(BaselineTest, CanBeTruncatedAnywhere) {
  for (size_t size = 0; size < text_.size(); ++size)
    (void)read_baseline(text_.substr(0, size), "b");
}

}  // namespace
}  // namespace vram::explain
