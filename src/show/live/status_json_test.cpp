#include "show/live/status_json.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/testing/hostile_text.hpp"
#include "base/text.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gtest/gtest.h>

namespace vram::show {
namespace {

Json parsed_status(const watch::Snapshot& snapshot) { return Json::parse(status_json(snapshot)); }

TEST(StatusJson, CarriesDevicesAndProcesses) {
  const Json json = parsed_status(testing::sample_snapshot());
  EXPECT_EQ(json["schema"], "vram.status/1");
  EXPECT_EQ(json["time_unix_ns"], testing::kSnapshotTime);
  ASSERT_EQ(json["devices"].size(), 8U);
  const Json& device = json["devices"][7];
  EXPECT_EQ(device["vendor"], "nvidia");
  EXPECT_EQ(device["compute_capability"], "9.0");
  EXPECT_EQ(device["memory"]["used_bytes"], (92 + 21) * kGiB);
  EXPECT_EQ(device["memory"]["reserved_bytes"], 512 * kMiB);
  EXPECT_EQ(device["process_count"], 2);
  EXPECT_EQ(json["devices"][1]["unattributed_bytes"], 3 * kGiB);
  ASSERT_EQ(json["processes"].size(), 9U);
  const Json& server = json["processes"][8];
  EXPECT_EQ(server["pod"]["namespace"], "serving");
  EXPECT_EQ(server["container"]["runtime"], "containerd");
  ASSERT_EQ(server["uses"].size(), 2U);
  EXPECT_EQ(server["uses"][1]["device"], 7);
  EXPECT_EQ(server["uses"][1]["used_bytes"], 21 * kGiB);
  EXPECT_TRUE(server["uses"][1]["allocator"].is_null());
  EXPECT_EQ(json["processes"][0]["uses"][0]["allocator"]["cached_bytes"], 8'704 * kMiB);
}

// Nothing but flags, numbers of devices and processes, and the vendor is there to be said.
void expect_unknown(const Json& value, const std::string& name) {
  if (value.is_object() || value.is_array()) {
    for (const auto& [key, inner] : value.items()) expect_unknown(inner, key);
  } else if (!value.is_boolean() && !value.is_string() && name != "index" && name != "pid" &&
             name != "device") {
    EXPECT_TRUE(value.is_null()) << name;
  }
}

TEST(StatusJson, UnknownIsNull) { expect_unknown(parsed_status(testing::unknown_snapshot()), ""); }

TEST(StatusJson, ZeroIsNotUnknown) {
  const Json json = parsed_status(testing::sample_snapshot());
  EXPECT_EQ(json["devices"][0]["unattributed_bytes"], 0);
  EXPECT_EQ(json["devices"][0]["ecc_since_boot"]["uncorrected"], 0);
}

TEST(StatusJson, HasTrafficHostMemoryAndMps) {
  watch::Snapshot snapshot = testing::awkward_snapshot();
  snapshot.processes[0].uses[0].process.is_mps = true;
  const Json json = parsed_status(snapshot);
  const Json& device = json["devices"][0];
  EXPECT_EQ(device["memory_bandwidth_percent"], 73);
  EXPECT_EQ(device["pcie_sent_bytes_per_second"], 1'048'576'000);
  EXPECT_EQ(device["pcie_received_bytes_per_second"], 12);
  EXPECT_TRUE(device["nvlink_sent_bytes_per_second"].is_null());
  EXPECT_EQ(device["nvlink_received_bytes_per_second"], 300 * kGiB);
  EXPECT_EQ(device["nvlink_sent_bytes"], 9 * kGiB);
  EXPECT_EQ(device["host_memory"]["used_bytes"], 3 * kGiB);
  EXPECT_TRUE(json["devices"][1]["host_memory"].is_null());
  EXPECT_EQ(json["processes"][0]["uses"][0]["is_mps"], true);
  EXPECT_EQ(json["processes"][1]["uses"][0]["is_mps"], false);
}

TEST(StatusJson, TextsComeBackWholeAndDoNothingToATerminal) {
  const std::string text = status_json(testing::awkward_snapshot());
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  const Json json = Json::parse(text);
  EXPECT_EQ(json["processes"][0]["command"], valid_utf8(vram::testing::hostile_text()));
  EXPECT_TRUE(json["processes"][0]["container"]["runtime"].is_null());
}

TEST(StatusJson, InstancesOfOneProcessAreOneProcess) {
  const Json json = parsed_status(testing::awkward_snapshot());
  EXPECT_EQ(json["devices"][1]["process_count"], 1);
  EXPECT_EQ(json["processes"][1]["uses"].size(), 2U);
  EXPECT_EQ(json["devices"][1]["mig_instances"][2]["memory"]["total_bytes"], 16 * kGiB);
  EXPECT_TRUE(json["devices"][1]["mig_instances"][2]["memory"]["used_bytes"].is_null());
}

TEST(StatusJson, EveryByteAndTimeFieldIsAnInteger) {
  vram::testing::expect_integers(parsed_status(testing::awkward_snapshot()), "");
}

TEST(StatusJson, EveryFieldIsDocumentedAndEveryDocumentedFieldExists) {
  watch::Snapshot snapshot = testing::awkward_snapshot();
  snapshot.processes.push_back(testing::sample_snapshot().processes[0]);
  snapshot.processes.push_back(testing::sample_snapshot().processes[8]);
  vram::testing::expect_documented("vram.status/1", parsed_status(snapshot),
                                   {{"status", ""},
                                    {"device", "/devices/0"},
                                    {"memory", "/devices/0/bar1"},
                                    {"ecc", "/devices/0/ecc_ever"},
                                    {"rows", "/devices/0/remapped_rows"},
                                    {"pages", "/devices/0/retired_pages"},
                                    {"fault", "/devices/0/xids/0"},
                                    {"instance", "/devices/1/mig_instances/0"},
                                    {"process", "/processes/0"},
                                    {"container", "/processes/0/container"},
                                    {"pod", "/processes/3/pod"},
                                    {"use", "/processes/0/uses/0"},
                                    {"allocator", "/processes/2/uses/0/allocator"}});
}

}  // namespace
}  // namespace vram::show
