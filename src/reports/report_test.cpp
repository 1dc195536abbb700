// report.h as a C program uses it.
#include "base/json.hpp"
#include "base/testing/paths.hpp"
#include "explain/explain.hpp"
#include "reports/testing/stream.hpp"
#include "show/report/report_json.hpp"
#include "trace/open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>
#include <vram/report.h>

namespace {

using testing::HasSubstr;
using vram::Json;
using vram::reports::testing::column;
using vram::reports::testing::Stream;

const std::string kLeak = vram::source_path("demo/leak.stacks.pickle.xz");
const std::string kFailed = vram::data_path("snapshots/main.p4.pickle");

struct Close {
  void operator()(vram_report* report) const { vram_report_close(report); }
};
using Opened = std::unique_ptr<vram_report, Close>;

Opened open_report(const std::string& path) {
  vram_report* report = nullptr;
  EXPECT_EQ(vram_report_open(path.c_str(), nullptr, &report), VRAM_REPORT_OK)
      << vram_report_last_error();
  return Opened(report);
}

std::string taken(char* text) {
  std::string copy = text;
  vram_report_free_text(text);
  return copy;
}

Json document_of(const Opened& report) {
  char* text = nullptr;
  EXPECT_EQ(vram_report_json(report.get(), 50, &text), VRAM_REPORT_OK);
  return Json::parse(taken(text));
}

template <typename T>
std::vector<std::optional<T>> column_of(const Opened& report, const char* table, const char* name) {
  Stream stream;
  EXPECT_EQ(vram_report_table(report.get(), table, stream.get()), VRAM_REPORT_OK)
      << vram_report_last_error();
  return column<T>(stream.get(), name);
}

TEST(Report, TheDocumentIsTheOneThatTheProgramPrints) {
  const auto trace = vram::trace::open_trace(kLeak).value();
  const auto report = vram::explain::explain(trace).value();
  char* text = nullptr;
  const Opened opened = open_report(kLeak);
  ASSERT_EQ(vram_report_json(opened.get(), 3, &text), VRAM_REPORT_OK);
  EXPECT_EQ(taken(text), vram::show::report_json(report, {.top = 3}));
}

TEST(Report, AMomentHasTheStateThatTheDocumentHas) {
  const Opened report = open_report(kFailed);
  const Json device = document_of(report)["devices"][0];
  const auto state = [&](const char* at) {
    char* text = nullptr;
    EXPECT_EQ(vram_report_state_json(report.get(), 0, at, 50, &text), VRAM_REPORT_OK)
        << vram_report_last_error();
    return Json::parse(taken(text));
  };
  EXPECT_EQ(state("peak"), device["at_peak"]);
  EXPECT_EQ(state("oom"), device["ooms"][0]["state"]);
}

TEST(Report, BlocksOfThePeakAddUpToItsHolders) {
  const Opened report = open_report(kLeak);
  const Json device = document_of(report)["devices"][0];
  const uint64_t peak = device["peak"]["event"];
  const auto names = column_of<std::string>(report, "allocations", "name");
  const auto scopes = column_of<std::string>(report, "allocations", "scope");
  const auto bytes = column_of<uint64_t>(report, "allocations", "requested_bytes");
  const auto begin = column_of<uint32_t>(report, "allocations", "alloc_event");
  const auto end = column_of<uint32_t>(report, "allocations", "free_event");
  std::map<std::string, std::map<std::string, uint64_t>> sums;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_alive = (!begin[i] || *begin[i] <= peak) && (!end[i] || *end[i] > peak);
    if (!is_alive) continue;
    sums["user_frame"][names[i].value_or("")] += *bytes[i];
    sums["scope"][scopes[i].value_or("")] += *bytes[i];
  }
  char* text = nullptr;
  ASSERT_EQ(vram_report_state_json(report.get(), 0, "peak", 0, &text), VRAM_REPORT_OK);
  size_t compared = 0;
  const Json state = Json::parse(taken(text));
  for (const Json& breakdown : state["breakdowns"]) {
    const auto sum = sums.find(breakdown["by"]);
    if (sum == sums.end()) continue;
    std::map<std::string, uint64_t> expected;
    for (const Json& holder : breakdown["holders"])
      expected[holder["name"]] = holder["requested_bytes"];
    EXPECT_EQ(sum->second, expected) << breakdown["by"];
    ++compared;
  }
  EXPECT_EQ(compared, 2U);
}

TEST(Report, TablesHaveTheRowsThatTheDocumentCounts) {
  const Opened report = open_report(kFailed);
  const Json document = document_of(report);
  size_t events = 0;
  size_t steps = 0;
  size_t findings = 0;
  for (const Json& device : document["devices"]) {
    events += device["events"].get<size_t>();
    steps += device["steps"]["items"].size();
    findings += device["findings"].size();
  }
  EXPECT_EQ(column_of<uint64_t>(report, "events", "address").size(), events);
  EXPECT_EQ(column_of<uint64_t>(report, "steps", "index").size(), steps);
  EXPECT_EQ(column_of<std::string>(report, "findings", "title").size(), findings);
  EXPECT_EQ(column_of<uint64_t>(report, "devices", "requested_bytes").size(),
            document["devices"].size());
  EXPECT_EQ(column_of<std::string>(report, "runs", "path"),
            std::vector{std::optional(document["path"].get<std::string>())});
  EXPECT_GT(events, 0U);
  EXPECT_GT(findings, 0U);
}

TEST(Report, EveryTableHasAName) {
  const Opened report = open_report(kFailed);
  std::set<std::string> names;
  while (const char* name = vram_report_table_name(names.size())) {
    Stream stream;
    EXPECT_EQ(vram_report_table(report.get(), name, stream.get()), VRAM_REPORT_OK) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 8U);
  Stream stream;
  EXPECT_EQ(vram_report_table(report.get(), "blocks", stream.get()), VRAM_REPORT_INVALID_VALUE);
  EXPECT_THAT(vram_report_last_error(), HasSubstr("runs, devices, steps"));
}

TEST(Report, AStreamOutlivesItsReport) {
  Opened report = open_report(kLeak);
  Stream stream;
  ASSERT_EQ(vram_report_table(report.get(), "allocations", stream.get()), VRAM_REPORT_OK);
  const size_t expected = column_of<uint64_t>(report, "allocations", "address").size();
  report.reset();
  EXPECT_EQ(column<uint64_t>(stream.get(), "address").size(), expected);
}

TEST(Report, ThreadsMayUseOneReport) {
  const Opened report = open_report(kFailed);
  const auto expected = column_of<std::string>(report, "allocations", "name");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(column_of<std::string>(report, "allocations", "name"), expected);
      char* text = nullptr;
      EXPECT_EQ(vram_report_state_json(report.get(), 9, "peak", 1, &text),
                VRAM_REPORT_INVALID_VALUE);
      EXPECT_THAT(vram_report_last_error(), HasSubstr("found 9"));
    });
  }
}

TEST(Report, SaysWhyAFileCantBeRead) {
  vram_report* report = nullptr;
  EXPECT_EQ(vram_report_open("/nowhere.vtrace", nullptr, &report), VRAM_REPORT_NO_FILE);
  EXPECT_THAT(vram_report_last_error(), HasSubstr("/nowhere.vtrace"));
  EXPECT_EQ(vram_report_open(vram::source_path("README.md").c_str(), nullptr, &report),
            VRAM_REPORT_NO_RECORDING);
  EXPECT_EQ(vram_report_open("/proc/self/mem", nullptr, &report), VRAM_REPORT_FILE_FAILED)
      << vram_report_last_error();
  const vram_report_options small = {sizeof(vram_report_options), 1000};
  EXPECT_EQ(vram_report_open(kLeak.c_str(), &small, &report), VRAM_REPORT_TOO_LARGE);
  EXPECT_EQ(report, nullptr);
}

TEST(Report, TheLibraryHasTheVersionOfTheProgram) {
  EXPECT_STREQ(vram_report_version(), VRAM_VERSION);
}

TEST(Report, InvalidArgumentsChangeNothing) {
  vram_report* report = nullptr;
  EXPECT_EQ(vram_report_open(nullptr, nullptr, &report), VRAM_REPORT_INVALID_VALUE);
  EXPECT_EQ(vram_report_open(kLeak.c_str(), nullptr, nullptr), VRAM_REPORT_INVALID_VALUE);
  const vram_report_options other = {1, 0};
  EXPECT_EQ(vram_report_open(kLeak.c_str(), &other, &report), VRAM_REPORT_INVALID_VALUE);
  char* text = nullptr;
  EXPECT_EQ(vram_report_json(nullptr, 1, &text), VRAM_REPORT_INVALID_VALUE);
  Stream stream;
  EXPECT_EQ(vram_report_table(nullptr, "events", stream.get()), VRAM_REPORT_INVALID_VALUE);
  EXPECT_EQ(stream->release, nullptr);
  const Opened opened = open_report(kFailed);
  for (const char* at : {"noon", "step:99", "event:99999", "3h"}) {
    EXPECT_EQ(vram_report_state_json(opened.get(), 0, at, 1, &text), VRAM_REPORT_INVALID_VALUE)
        << at;
    EXPECT_EQ(text, nullptr);
    EXPECT_THAT(vram_report_last_error(), testing::Not(HasSubstr("--at")));
  }
  vram_report_close(nullptr);
  vram_report_free_text(nullptr);
}

}  // namespace
