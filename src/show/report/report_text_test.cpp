#include "show/report/report_text.hpp"

#include "base/text.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::show {
namespace {

using ::testing::HasSubstr;
using testing::lines_of;
using ::testing::Not;

TEST(ReportText, FitsEveryWidthItAccepts) {
  for (int columns = 60; columns <= 120; ++columns) {
    for (const std::string& line :
         lines_of(draw_report(testing::sample_report(), {.columns = columns}))) {
      EXPECT_LE(display_width(line), columns) << line;
      EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
    }
  }
}

// Everything at its worst: long names, many of each.
explain::Report long_report() {
  explain::Report report = testing::sample_report();
  report.path = "runs/" + std::string(90, 'x') + ".pickle.xz";
  explain::DeviceReport& device = report.devices[report.main_device];
  for (explain::Breakdown& breakdown : device.at_peak.breakdowns) {
    for (int i = 0; i < 20; ++i) breakdown.holders.push_back(breakdown.holders.back());
  }
  const std::string words = "words that say at length what was found and what to do about it ";
  while (device.findings.size() < 20) {
    explain::Finding finding = device.findings[0];
    for (std::string* text : {&finding.title, &finding.detail, &finding.advice}) {
      while (text->size() < 400) *text += words;
      if (text == &finding.title) text->resize(120);
    }
    device.findings.push_back(finding);
  }
  for (int i = 0; i < 12; ++i) device.ooms.push_back(device.ooms.front());
  for (int i = 0; i < 8; ++i) device.growth.push_back(device.growth.front());
  for (int i = 0; i < 15; ++i) report.notes.push_back({words, 2});
  report.devices.resize(8, explain::DeviceReport(device));
  return report;
}

TEST(ReportText, FitsTheScreenAndSaysWhatItLeavesOut) {
  for (const explain::Report& report : {testing::sample_report(), long_report()}) {
    const std::string text = draw_report(report, {.columns = 100, .max_lines = 50});
    EXPECT_LE(lines_of(text).size(), 50U);
    EXPECT_GE(lines_of(text).size(), 30U) << "what has room stays";
    EXPECT_THAT(text, HasSubstr("--full adds"));
  }
  EXPECT_THAT(testing::unwrapped(draw_report(long_report(), {.columns = 100, .max_lines = 50})),
              HasSubstr("more findings"));
  EXPECT_THAT(draw_report(long_report()), Not(HasSubstr("--full")));
}

TEST(ReportText, AnAskedNumberOfHoldersStaysOnAShortPage) {
  explain::Report report = long_report();
  const auto holders = [&](TextOptions options) {
    options.max_lines = 50;
    const auto lines = lines_of(draw_report(report, options));
    return std::ranges::count_if(
        lines, [](const std::string& line) { return line.find("before recording") != line.npos; });
  };
  EXPECT_GE(holders({.top = 12}), 10);
  EXPECT_LT(holders({}), 8);
}

TEST(ReportText, CategoriesAreToldWhereThereAreNames) {
  explain::Report report = testing::sample_report();
  EXPECT_THAT(draw_report(report), Not(HasSubstr("CATEGORIES")));
  explain::State& state = report.devices[0].at_peak;
  state.named_bytes = 12 * testing::kSampleGiB;
  const auto holder = [](const char* name, uint64_t bytes) {
    return explain::Holder{.name = name, .requested_bytes = bytes, .count = 7, .stack = {}};
  };
  state.breakdowns.push_back(
      {explain::Dimension::kCategory,
       {holder("activation", 12 * testing::kSampleGiB), holder("other", 3 * testing::kSampleGiB)}});
  const std::string text = draw_report(report);
  EXPECT_THAT(text, HasSubstr("of the 15 GiB requested at the peak; 80.0 % named by the program"));
  EXPECT_THAT(testing::line_with(text, "activation"), HasSubstr("80.0 %"));
  EXPECT_THAT(text, HasSubstr("by name, else by line of your code (16 blocks)"));
  state.breakdowns.back().holders.erase(state.breakdowns.back().holders.begin());
  EXPECT_THAT(draw_report(report), Not(HasSubstr("CATEGORIES"))) << "all of it is other";
}

TEST(ReportText, SaysEachThingOfTheReport) {
  const std::string text = draw_report(testing::sample_report());
  for (const char* expected : {"runs/unet.pickle.xz",
                               "PyTorch snapshot (pickle protocol 4, xz), 342 KiB",
                               "10,000 events",
                               "cut off at byte 123,456",
                               "end state reproduced exactly",
                               "15 GiB",
                               "17 GiB",
                               "88.2 %",
                               "8 s, step 8",
                               "step 8",
                               "peak 15 GiB",
                               "train.py:42 loss_fn",
                               "50.0 %",
                               "12 blocks",
                               "by scope",
                               "stranded",
                               "1.46 GiB",
                               "42 holes",
                               "releasable",
                               "pending",
                               "rounding",
                               "600 MiB (default pool, default stream)",
                               "+1.5 MiB a step",
                               "rise",
                               "1 request failed",
                               "asked for 2 GiB",
                               "after event 8,500",
                               "train.py:88 hook leaks",
                               "Detach what the hook stores.",
                               "unknown key 'colour' (3 times)"}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
}

TEST(ReportText, WithoutUnicodeEveryByteIsPrintableAscii) {
  const std::string text = draw_report(testing::sample_report(), {.unicode = false});
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
}

TEST(ReportText, WithoutUnicodeTheLayoutIsTheSame) {
  const auto unicode = lines_of(draw_report(testing::sample_report()));
  const auto ascii = lines_of(draw_report(testing::sample_report(), {.unicode = false}));
  ASSERT_EQ(unicode.size(), ascii.size());
  for (size_t i = 0; i < ascii.size(); ++i)
    EXPECT_LE(std::abs(display_width(unicode[i]) - display_width(ascii[i])), 1);
}

TEST(ReportText, EscapeCodesOnlyWithColour) {
  EXPECT_THAT(draw_report(testing::sample_report()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(draw_report(testing::sample_report(), {.colour = true}), HasSubstr("\x1b["));
}

TEST(ReportText, ColourChangesNothingElse) {
  std::string coloured = draw_report(testing::sample_report(), {.colour = true});
  for (size_t begin = coloured.find('\x1b'); begin != std::string::npos;
       begin = coloured.find('\x1b')) {
    coloured.erase(begin, coloured.find('m', begin) - begin + 1);
  }
  EXPECT_EQ(coloured, draw_report(testing::sample_report()));
}

TEST(ReportText, TopLimitsHoldersAndSumsTheRest) {
  explain::Report report = testing::sample_report();
  auto& holders = report.devices[0].at_peak.breakdowns[0].holders;
  holders.push_back({"a small one", 512, 512, 1, 512, 0, false, {}});
  const std::string text = draw_report(report, {.top = 1});
  EXPECT_THAT(text, HasSubstr("3 others"));
  EXPECT_THAT(text, Not(HasSubstr("a small one")));
  EXPECT_THAT(draw_report(report, {.top = 0}), HasSubstr("a small one"));
}

TEST(ReportText, SeveralDevicesGetALineEachAndOneIsShown) {
  explain::Report report = testing::sample_report();
  report.devices.push_back(testing::sample_device(3));
  report.main_device = 1;
  const std::string text = draw_report(report);
  EXPECT_THAT(text, HasSubstr("GPU 0"));
  EXPECT_THAT(text, HasSubstr("GPU 3 is shown below"));
}

TEST(ReportText, WithoutAClockMomentsAreEvents) {
  explain::Report report = testing::sample_report();
  report.clock = explain::Clock::kEventIndex;
  report.devices[0].peak.requested.time_ns = 8'500;
  const std::string text = draw_report(report);
  EXPECT_THAT(text, HasSubstr("recorded without a clock"));
  EXPECT_THAT(text, HasSubstr("event 8,500, step 8"));
}

TEST(ReportText, AReportWithNearlyNothingIsDrawn) {
  explain::Report report;
  report.devices.emplace_back();
  EXPECT_THAT(draw_report(report), HasSubstr("no steps found"));
}

TEST(ReportText, NamesFromTheFileCannotControlTheTerminal) {
  explain::Report report = testing::sample_report();
  report.devices[0].at_peak.breakdowns[0].holders[0].name = "evil\x1b[2J\r.py";
  report.path = "a\nb";
  EXPECT_THAT(draw_report(report), Not(HasSubstr("\x1b")));
  EXPECT_THAT(draw_report(report), Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace vram::show
