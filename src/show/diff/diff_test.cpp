#include "show/diff/diff.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/testing/documented.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vram::show {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

explain::RunPeaks run(std::vector<explain::PeakSite> sites) {
  explain::DevicePeak peak;
  for (const explain::PeakSite& site : sites) peak.requested_bytes += site.bytes;
  peak.sites[static_cast<size_t>(explain::SiteBasis::kStack)] = std::move(sites);
  explain::RunPeaks peaks;
  peaks.path = "run.vtrace";
  peaks.devices = {std::move(peak)};
  return peaks;
}

explain::PeakSite site(const char* function, const char* file, uint32_t line, uint64_t bytes) {
  return {.name = fmt::format("{}:{} {}", file, line, function),
          .calls = {{function, file, line}},
          .bytes = bytes,
          .count = 1};
}

explain::Side side(const char* name, std::vector<explain::PeakSite> sites) {
  return explain::make_side(name, {run(std::move(sites))});
}

explain::Diff sample(const char* limit = "1%") {
  const explain::Side a = side("old.vtrace", {site("forward", "src/m.py", 7, 100 * kMiB),
                                              site("gone", "/usr/x.py", 1, kMiB)});
  const explain::Side b =
      side("new.vtrace", {site("forward", "src/m.py", 9, 164 * kMiB),
                          site("log\n::error::<&>", "a, b:c%.py", 3, 2 * kMiB)});
  return explain::compare(a, b, explain::parse_limit(limit).value());
}

TEST(DiffJson, IsDocumented) {
  const Json json = Json::parse(diff_json(sample(), 0));
  vram::testing::expect_documented("vram.diff/1", json,
                                   {{"diff", ""},
                                    {"device", "/devices/0"},
                                    {"side", "/devices/0/a"},
                                    {"site", "/devices/0/sites/0"},
                                    {"limit", "/limit"}});
  vram::testing::expect_integers(json, "");
  EXPECT_TRUE(json["has_regression"]);
  EXPECT_EQ(json["devices"][0]["growth_bytes"], 65 * kMiB);
  EXPECT_EQ(json["devices"][0]["sites"][0]["line"], 9);
}

TEST(DiffJson, ListsAsManySitesAsAsked) {
  const Json json = Json::parse(diff_json(sample(), 1));
  EXPECT_EQ(json["devices"][0]["sites"].size(), 1U);
  EXPECT_EQ(json["devices"][0]["changed_count"], 3);
}

// What a recording contains cannot add commands, tags or rows of its own.
TEST(DiffFormats, EscapeWhatARecordingContains) {
  const std::string annotations = diff_annotations(sample());
  EXPECT_THAT(annotations, HasSubstr("::error file=a%2C b%3Ac%25.py,line=3,title=GPU memory::"));
  EXPECT_THAT(annotations, HasSubstr("::error file=src/m.py,line=9,title=GPU memory::+64 MiB"));
  EXPECT_THAT(annotations, Not(HasSubstr("\n::error::<&>")));
  EXPECT_THAT(diff_junit(sample()), AllOf(HasSubstr("&lt;&amp;&gt;"), Not(HasSubstr("<&>"))));
  EXPECT_THAT(diff_markdown(sample()), ContainsRegex("`[^`]*<&>[^`]*`"));
  const Json sarif = Json::parse(diff_sarif(sample(), "1.2.3"));
  const Json& location = sarif["runs"][0]["results"][2]["locations"][0]["physicalLocation"];
  EXPECT_EQ(location["artifactLocation"]["uri"], "a%2C%20b%3Ac%25.py");
}

std::string markdown_of(const char* name) {
  explain::PeakSite named = site("f", "m.py", 1, 9);
  named.name = name;
  return diff_markdown(
      explain::compare(side("@all", {site("g", "g.py", 1, 9)}), side("b", {named}), std::nullopt));
}

// A comment with "@all" would notify a whole group.
TEST(DiffFormats, MarkdownHasNoMentionsLinksOrCells) {
  EXPECT_THAT(markdown_of("x"), HasSubstr("A: `@all`, B: `b`"));
  EXPECT_THAT(markdown_of("@all #1 http://x"), HasSubstr("| `@all #1 http://x` |\n"));
  EXPECT_THAT(markdown_of("\\[click](http://x)"), HasSubstr("| `\\[click](http://x)` |\n"));
  EXPECT_THAT(markdown_of("a|b\n| c"), HasSubstr("| `a\\|b\\n\\| c` |\n"));
  EXPECT_THAT(markdown_of("a`b``c"), HasSubstr("| ``` a`b``c ``` |\n"));
  EXPECT_THAT(markdown_of(""), HasSubstr("| ` ` |\n"));
}

// GitHub's runner trims lines before it looks for "::", and finds "##[" of its older commands
// anywhere in a line.
TEST(DiffFormats, NoNameIsACommandToGithub) {
  EXPECT_EQ(without_github_commands("  ::stop-commands::x\na ::b\n::c"),
            "  \\::stop-commands::x\na ::b\n\\::c");
  EXPECT_EQ(without_github_commands("\u00A0\u3000::error::x\n\u2003a ::b"),
            "\u00A0\u3000\\::error::x\n\u2003a ::b");
  EXPECT_EQ(without_github_commands("f ##[add-mask]a ###[b"), "f #\\#[add-mask]a ##\\#[b");
  EXPECT_EQ(without_github_commands("\n  \n"), "\n  \n");
  EXPECT_EQ(without_github_commands(""), "");
}

TEST(DiffFormats, XmlHasOnlyCharactersThatXmlAllows) {
  explain::PeakSite named = site("f", "m.py", 1, 9);
  named.name = "a\x01\x1b\xEF\xBF\xBE\xEF\xBF\xBF\xFFz";
  const std::string text = diff_junit(
      explain::compare(side("a", {site("g", "g.py", 1, 9)}), side("b", {named}), std::nullopt));
  EXPECT_THAT(text, HasSubstr("a\\x01\\x1b\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz"));
}

TEST(DiffFormats, AreRecognisedAsFilesOfVram) {
  EXPECT_TRUE(is_own_format(diff_junit(sample()), ""));
  EXPECT_TRUE(is_own_format(diff_sarif(sample(), "1.2.3"), ""));
  EXPECT_FALSE(is_own_format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg/>", ""));
}

TEST(DiffFormats, WithoutARegressionNothingIsAnError) {
  const explain::Diff fine = sample("90%");
  EXPECT_THAT(diff_annotations(fine),
              AllOf(HasSubstr("::notice file=src/m.py"), Not(HasSubstr("\n::error"))));
  EXPECT_THAT(diff_junit(fine), AllOf(HasSubstr("failures=\"0\""), Not(HasSubstr("<failure"))));
  const Json sarif = Json::parse(diff_sarif(fine, "1.2.3"));
  for (const Json& result : sarif["runs"][0]["results"]) EXPECT_EQ(result["level"], "note");
  EXPECT_THAT(draw_diff(fine), HasSubstr("within the limit of 90 %"));
}

// Of a device that B lacks, nothing is known: no format may say that it is within the limit.
TEST(DiffFormats, SayThatADeviceIsMissing) {
  const explain::Side a = side("old.vtrace", {site("forward", "src/m.py", 7, 100 * kMiB)});
  explain::Diff diff = explain::compare(a, {.name = "new.vtrace", .devices = {}},
                                        explain::parse_limit("1%").value());
  const std::string_view sentence = "GPU 0: only A has it, with a peak of 100 MiB";
  EXPECT_THAT(diff_junit(diff), AllOf(HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""),
                                      HasSubstr(fmt::format("<error message=\"{}\">", sentence))));
  EXPECT_THAT(diff_annotations(diff),
              HasSubstr(fmt::format("::error title=GPU memory::{}", sentence)));
  EXPECT_THAT(diff_markdown(diff),
              HasSubstr("### GPU memory: the limit of 1 % cannot be judged\n"));
  EXPECT_THAT(diff_sarif(diff, "1"),
              AllOf(HasSubstr("\"ruleId\": \"missing\""), HasSubstr(sentence)));
  EXPECT_THAT(draw_diff(diff), HasSubstr("the limit of 1 % cannot be judged: B lacks GPU 0"));
  diff.accepts_missing = true;
  EXPECT_THAT(diff_junit(diff), AllOf(HasSubstr("errors=\"0\""), Not(HasSubstr("<error"))));
  EXPECT_THAT(diff_annotations(diff), IsEmpty());
  EXPECT_THAT(diff_markdown(diff), HasSubstr("### GPU memory: within the limit of 1 %\n"));
  EXPECT_THAT(diff_sarif(diff, "1"), Not(HasSubstr("\"ruleId\": \"missing\"")));
  EXPECT_THAT(draw_diff(diff), HasSubstr("within the limit of 1 %"));
}

TEST(DiffText, NamesTheLargestGrowthFirst) {
  const std::string text = draw_diff(sample());
  EXPECT_LT(text.find("m.py:9 forward"), text.find("log"));
  EXPECT_THAT(text, HasSubstr("regression on 1 of 1 device"));
}

TEST(RelativeGrowth, HasNoZeroForAChange) {
  EXPECT_EQ(relative_growth(100, 100), "0 %");
  EXPECT_EQ(relative_growth(kGiB, kGiB + 1), "+<0.1 %");
  EXPECT_EQ(relative_growth(kGiB, kGiB - 1), "-<0.1 %");
  EXPECT_EQ(relative_growth(0, 5), "new");
  EXPECT_EQ(relative_growth(200, 300), "+50.0 %");
}

TEST(PlaceInRepository, IsARelativePath) {
  EXPECT_EQ(place_in_repository(site("f", "/usr/lib/x.py", 3, 1)), nullptr);
  EXPECT_EQ(place_in_repository(site("f", "<stdin>", 3, 1)), nullptr);
  EXPECT_EQ(place_in_repository(site("f", "src/x.py", 0, 1)), nullptr);
  EXPECT_EQ(place_in_repository(site("f", "../x.py", 3, 1)), nullptr);
  EXPECT_NE(place_in_repository(site("f", "src/x.py", 3, 1)), nullptr);
}

}  // namespace
}  // namespace vram::show
