#include "show/report_json.hpp"

#include "show/testing/sample_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace vram::show {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::set<std::string>;

Json sample() { return Json::parse(report_json(testing::sample_report())); }

TEST(ReportJson, CarriesTheFiguresAsIntegers) {
  const Json json = sample();
  EXPECT_EQ(json["schema"], "vram.report/1");
  EXPECT_EQ(json["peak"]["requested_bytes"], 15 * testing::kSampleGiB);
  EXPECT_EQ(json["peak"]["reserved_bytes"], 17 * testing::kSampleGiB);
  EXPECT_EQ(json["peak"]["time_ns"], 8 * testing::kSampleSecond + 1);
  EXPECT_EQ(json["peak"]["step"], 8);
  EXPECT_EQ(json["confidence"]["word"], "exact");
  EXPECT_EQ(json["steps"]["count"], 10);
  EXPECT_EQ(json["waste"]["stranded_bytes"], 1500 * testing::kSampleMiB);
  EXPECT_EQ(json["holders"][0]["name"], "train.py:42 loss_fn");
  EXPECT_EQ(json["findings"][0]["kind"], "fragmentation");
  EXPECT_EQ(json["truncated_at_byte"], 123'456);
}

void expect_integers(const Json& value, const std::string& name) {
  if (name == "bytes" || name.ends_with("_bytes") || name.ends_with("_ns")) {
    EXPECT_TRUE(value.is_number_integer() || value.is_null() || name == "per_step_bytes") << name;
  }
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) expect_integers(inner, key);
  } else if (value.is_array()) {
    for (const Json& inner : value) expect_integers(inner, "");
  }
}

TEST(ReportJson, EveryByteAndTimeFieldIsAnInteger) { expect_integers(sample(), ""); }

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
  EXPECT_TRUE(json["begin_unix_ns"].is_null());
  EXPECT_TRUE(json["peak"]["utilization"].is_null());
  EXPECT_TRUE(json["peak"]["step"].is_null());
}

TEST(ReportJson, InvalidTextStaysValidJson) {
  explain::Report report = testing::sample_report();
  report.path = "a\xff\xc0\n\x01.pickle";
  EXPECT_EQ(Json::parse(report_json(report))["path"], "a\xEF\xBF\xBD\xEF\xBF\xBD\n\x01.pickle");
}

// docs/json.md has a table under "### name" for each kind of object; the first column names the
// fields.
std::map<std::string, Names> documented() {
  std::ifstream file(VRAM_TEST_DATA "/../../docs/json.md");
  std::map<std::string, Names> result;
  std::string object;
  const std::regex heading("^### (\\w+).*");
  const std::regex row("^\\| `(\\w+)` \\|.*");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_match(line, match, heading)) object = match[1];
    if (std::regex_match(line, match, row)) result[object].insert(match[1]);
  }
  return result;
}

Names keys_of(const Json& object) {
  Names names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
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
      {"oom", "/ooms/0"},
      {"finding", "/findings/0"},
      {"slice", "/timeline/0"},
      {"note", "/notes/0"}};
  const Json json = sample();
  auto documents = documented();
  for (const auto& [name, pointer] : objects) {
    Names keys = keys_of(json.at(Json::json_pointer(pointer)));
    // The top level repeats the main device's fields; they are documented there.
    if (name == "recording") {
      for (const std::string& key : keys_of(json["devices"][0])) keys.erase(key);
    }
    EXPECT_EQ(keys, documents[name]) << name;
    documents.erase(name);
  }
  EXPECT_TRUE(documents.empty()) << "documented and never produced: " << documents.begin()->first;
}

}  // namespace
}  // namespace vram::show
