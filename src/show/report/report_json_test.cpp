#include "show/report/report_json.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/time.hpp"
#include "show/testing/sample_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace vram::show {
namespace {

Json sample_report_json() { return Json::parse(report_json(testing::sample_report())); }

TEST(ReportJson, CarriesTheFiguresAsIntegers) {
  const Json json = sample_report_json();
  EXPECT_EQ(json["schema"], "vram.report/1");
  EXPECT_EQ(json["peak"]["requested_bytes"], 15 * testing::kSampleGiB);
  EXPECT_EQ(json["peak"]["reserved_bytes"], 17 * testing::kSampleGiB);
  EXPECT_EQ(json["peak"]["time_ns"], 8 * kSignedSecondNs + 1);
  EXPECT_EQ(json["peak"]["step"], 8);
  EXPECT_EQ(json["confidence"]["word"], "exact");
  EXPECT_EQ(json["steps"]["count"], 10);
  EXPECT_EQ(json["waste"]["stranded_bytes"], 1500 * testing::kSampleMiB);
  EXPECT_EQ(json["holders"][0]["name"], "train.py:42 loss_fn");
  EXPECT_EQ(json["findings"][0]["kind"], "fragmentation");
  EXPECT_EQ(json["truncated_at_byte"], 123'456);
}

TEST(ReportJson, EveryByteAndTimeFieldIsAnInteger) {
  vram::testing::expect_integers(sample_report_json(), "");
}

TEST(ReportJson, TheTopLevelIsTheMainDevice) {
  explain::Report report = testing::sample_report();
  report.devices.push_back(testing::sample_device(3));
  report.devices[1].events = 77;
  report.main_device = 1;
  const Json json = Json::parse(report_json(report));
  EXPECT_EQ(json["device"], 3);
  for (const auto& [key, value] : json["devices"][1].items()) EXPECT_EQ(json[key], value) << key;
  EXPECT_EQ(json["devices"].size(), 2U);
}

TEST(ReportJson, TopCutsHoldersAndKeepsTheSum) {
  const Json json = Json::parse(report_json(testing::sample_report(), {.top = 1}));
  const Json& breakdown = json["at_peak"]["breakdowns"][0];
  EXPECT_EQ(breakdown["holders"].size(), 1U);
  EXPECT_EQ(breakdown["holder_count"], 3);
  EXPECT_EQ(breakdown["holders"][0]["requested_bytes"].get<uint64_t>() +
                breakdown["others"]["requested_bytes"].get<uint64_t>(),
            15 * testing::kSampleGiB);
}

TEST(ReportJson, UnknownIsNull) {
  explain::Report report;
  report.devices.emplace_back();
  const Json json = Json::parse(report_json(report));
  EXPECT_TRUE(json["truncated_at_byte"].is_null());
  EXPECT_TRUE(json["at"].is_null());
  EXPECT_TRUE(json["what_if"].is_null());
  EXPECT_TRUE(json["begin_unix_ns"].is_null());
  EXPECT_TRUE(json["peak"]["utilization"].is_null());
  EXPECT_TRUE(json["peak"]["step"].is_null());
}

TEST(ReportJson, InvalidTextStaysValidJson) {
  explain::Report report = testing::sample_report();
  report.path = "a\xff\xc0\n\x01.pickle";
  EXPECT_EQ(Json::parse(report_json(report))["path"], "a\xEF\xBF\xBD\xEF\xBF\xBD\n\x01.pickle");
}

TEST(ReportJson, EveryFieldIsDocumentedAndEveryDocumentedFieldExists) {
  const std::map<std::string, std::string> objects = {
      {"recording", ""},
      {"device", "/devices/0"},
      {"confidence", "/confidence"},
      {"peak", "/peak"},
      {"state", "/at"},
      {"waste", "/at/waste"},
      {"wastes", "/waste"},
      {"breakdown", "/at/breakdowns/0"},
      {"others", "/at/breakdowns/0/others"},
      {"holder", "/holders/0"},
      {"frame", "/at/breakdowns/1/holders/0/stack/0"},
      {"pinner", "/at/pinners/0"},
      {"steps", "/steps"},
      {"step", "/steps/items/0"},
      {"phase", "/steps/phases/0"},
      {"growth", "/growth/0"},
      {"rest", "/rest"},
      {"rest_item", "/rest/items/0"},
      {"marks", "/marks"},
      {"mark_total", "/marks/totals/0"},
      {"mark", "/marks/items/0"},
      {"oom", "/ooms/0"},
      {"what_if", "/what_if"},
      {"what_if_replay", "/what_if/replays/0"},
      {"finding", "/findings/0"},
      {"slice", "/timeline/0"},
      {"note", "/notes/0"}};
  explain::Report report = testing::sample_report();
  report.devices[0].rest.emplace().items.resize(1);
  report.devices[0].marks.totals.resize(1);
  report.devices[0].marks.lines.resize(1);
  const Json json = Json::parse(report_json(report));
  auto documents = vram::testing::documented("vram.report/1");
  for (const auto& [name, pointer] : objects) {
    vram::testing::Names keys = vram::testing::keys_of(json.at(Json::json_pointer(pointer)));
    // The top level repeats the main device's fields; they are documented there.
    if (name == "recording") {
      for (const std::string& key : vram::testing::keys_of(json["devices"][0])) keys.erase(key);
    }
    EXPECT_EQ(keys, documents[name]) << name;
    documents.erase(name);
  }
  EXPECT_TRUE(documents.empty()) << "documented and never produced: " << documents.begin()->first;
}

// A program may fail thousands of times while it holds thousands of blocks.
TEST(ReportJson, OnlyTheFirstAndTheLastOomListAllHolders) {
  explain::Report report = testing::sample_report();
  explain::Breakdown breakdown;
  breakdown.holders.resize(200);
  explain::Oom oom;
  oom.state.breakdowns = {breakdown};
  report.devices[0].ooms.assign(3, oom);
  const auto listed = [&](size_t top) {
    std::vector<size_t> counts;
    const Json json = Json::parse(report_json(report, {.top = top}));
    for (const Json& each : json["ooms"])
      counts.push_back(each["state"]["breakdowns"][0]["holders"].size());
    return counts;
  };
  EXPECT_EQ(listed(0), (std::vector<size_t>{200, 50, 200}));
  EXPECT_EQ(listed(70), (std::vector<size_t>{70, 70, 70}));
}

}  // namespace
}  // namespace vram::show
