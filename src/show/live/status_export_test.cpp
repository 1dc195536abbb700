#include "show/live/status_export.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/testing/hostile_text.hpp"
#include "base/text.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace vram::show {
namespace {

using Fields = std::vector<std::string>;

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

// A reader of RFC 4180, to the letter; field ends and line ends inside quotes are text.
std::vector<Fields> read(const std::string& csv) {
  std::vector<Fields> rows(1, Fields(1));
  bool quoted = false;
  for (size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (c == '"' && quoted && i + 1 < csv.size() && csv[i + 1] == '"') {
      rows.back().back() += csv[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      rows.back().emplace_back();
    } else if (c == '\r' && !quoted && csv.at(i + 1) == '\n') {
      rows.emplace_back(1);
      ++i;
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();  // what follows the last line end
  return rows;
}

std::vector<std::map<std::string, std::string>> records(const watch::Snapshot& snapshot) {
  const std::vector<Fields> rows = read(status_csv_head() + status_csv(snapshot));
  std::vector<std::map<std::string, std::string>> result;
  for (size_t row = 1; row < rows.size(); ++row) {
    EXPECT_EQ(rows[row].size(), rows[0].size());
    result.emplace_back();
    for (size_t i = 0; i < rows[row].size(); ++i) result.back()[rows[0][i]] = rows[row][i];
  }
  return result;
}

TEST(StatusCsv, HasARowForEachProcessOnEachDevice) {
  const auto rows = records(testing::sample_snapshot());
  ASSERT_EQ(rows.size(), 10U) << "eight ranks, and a server on two devices";
  EXPECT_EQ(rows[0].at("device"), "0");
  EXPECT_EQ(rows[0].at("pid"), "47110");
  EXPECT_EQ(rows[0].at("used_bytes"), "98784247808");
  EXPECT_EQ(rows[0].at("cached_bytes"), "9126805504");
  EXPECT_EQ(rows[1].at("device_unattributed_bytes"), "3221225472");
  EXPECT_EQ(rows[9].at("device"), "7");
  EXPECT_EQ(rows[9].at("pid"), "91007");
  EXPECT_EQ(rows[9].at("pod_name"), "triton-6f9d8-x2x4k");
  EXPECT_EQ(rows[9].at("cached_bytes"), "") << "unknown";
  EXPECT_EQ(rows[9].at("command"), "tritonserver --model-repository=/models");
}

TEST(StatusCsv, HasARowForADeviceWithoutProcesses) {
  const auto rows = records(testing::awkward_snapshot());
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[3].at("device"), "2");
  EXPECT_EQ(rows[3].at("device_error"), "the GPU has fallen off the bus (XID 79)");
  for (const char* column : {"pid", "used_bytes", "command", "device_total_bytes", "step"})
    EXPECT_EQ(rows[3].at(column), "") << column;
  EXPECT_EQ(rows[4].at("device_is_asleep"), "1");
}

TEST(StatusCsv, HasTheTrafficOfTheDevice) {
  watch::Snapshot snapshot = testing::awkward_snapshot();
  snapshot.processes[0].uses[0].process.is_mps = true;
  const auto rows = records(snapshot);
  EXPECT_EQ(rows[0].at("is_mps"), "1");
  EXPECT_EQ(rows[1].at("is_mps"), "0");
  EXPECT_EQ(rows[3].at("is_mps"), "") << "no process";
  EXPECT_EQ(rows[0].at("device_memory_bandwidth_percent"), "73");
  EXPECT_EQ(rows[0].at("device_pcie_sent_bytes_per_second"), "1048576000");
  EXPECT_EQ(rows[0].at("device_nvlink_received_bytes_per_second"), "322122547200");
  EXPECT_EQ(rows[0].at("device_nvlink_sent_bytes_per_second"), "") << "unknown";
  EXPECT_EQ(rows[0].at("device_host_used_bytes"), "3221225472");
}

TEST(StatusCsv, TextsComeThroughQuotesAndStartNoFormula) {
  const auto rows = records(testing::awkward_snapshot());
  EXPECT_EQ(rows[0].at("command"), "'" + printable(vram::testing::hostile_text()));
  EXPECT_EQ(rows[0].at("device_unattributed_bytes"), "-2147483648") << "a number, no formula";
  watch::Snapshot snapshot = testing::sample_snapshot();
  for (const char* text : {"=1+1", "+1", "-1", "@SUM(A1)"}) {
    snapshot.processes[0].facts.edit().user = text;
    EXPECT_EQ(records(snapshot)[0].at("user"), "'" + std::string(text));
  }
  for (const char* text : {"a=1", " padded ", "a,b", "say \"no\"", ""}) {
    snapshot.processes[0].facts.edit().user = text;
    EXPECT_EQ(records(snapshot)[0].at("user"), text);
  }
}

TEST(StatusCsv, NothingFromOutsideReachesTheTerminal) {
  for (const Fields& row : read(status_csv(testing::awkward_snapshot())))
    for (const std::string& field : row) EXPECT_EQ(printable(field), field);
}

TEST(StatusCsv, HeadAndRowsFollowRfc4180) {
  const std::string head = status_csv_head();
  EXPECT_TRUE(head.starts_with("time_unix_ns,host,device,device_name,"));
  EXPECT_TRUE(head.ends_with(",device_host_used_bytes\r\n"));
  EXPECT_EQ(status_csv(watch::Snapshot()), "");
}

TEST(StatusCsv, UnknownIsEmpty) {
  const auto rows = records(testing::unknown_snapshot());
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& [name, field] : rows[1]) {
    const bool is_known =
        name == "device" || name == "pid" || name == "device_is_asleep" || name == "is_mps";
    EXPECT_EQ(field.empty(), !is_known) << name;
  }
}

}  // namespace

}  // namespace vram::show
