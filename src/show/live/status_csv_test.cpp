#include "show/live/status_csv.hpp"

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
