#include "trace/export/export.hpp"

#include "trace/testing/sample_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace vram::trace {
namespace {

using Row = std::vector<std::string>;

// A reader of RFC 4180: as strict as the RFC, and knowing nothing of how we write.
std::vector<Row> parse_csv(std::string_view text) {
  std::vector<Row> rows(1);
  std::string field;
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += text[++i];
      } else {
        is_quoted = false;
      }
    } else if (c == '"') {
      EXPECT_TRUE(field.empty());
      is_quoted = true;
    } else if (c == ',' || c == '\r') {
      rows.back().push_back(std::exchange(field, {}));
      if (c == ',') continue;
      EXPECT_EQ(text[++i], '\n');
      rows.emplace_back();
    } else {
      field += c;
    }
  }
  EXPECT_TRUE(rows.back().empty());
  rows.pop_back();
  return rows;
}

// Twice: the second one knows what the first one has written as its own.
template <typename Export>
std::string exported(Export&& write, const Trace& trace) {
  const std::string path = testing::TempDir() + "vram_export_test." + std::to_string(getpid());
  for (int round = 0; round < 2; ++round) {
    const auto done = write(trace, path, Replace::kOwn);
    EXPECT_TRUE(done) << done.error().message;
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  std::remove(path.c_str());
  return content.str();
}

std::string csv_of(const Trace& trace) {
  return exported([](const auto&... all) { return export_csv(all...); }, trace);
}
std::string jsonl_of(const Trace& trace) { return exported(export_jsonl, trace); }

TEST(ExportCsv, OneRowAnEventReadsBack) {
  const Trace trace = sample_trace();
  const auto rows = parse_csv(csv_of(trace));
  ASSERT_EQ(rows.size(), trace.events.size() + 1);
  for (const Row& row : rows) EXPECT_EQ(row.size(), 13u);
  EXPECT_EQ(rows[0][0], "device");
  EXPECT_EQ(rows[0][11], "stack");
  const std::string file = "/home/ada/train \"v2\", néw.py";
  EXPECT_EQ(rows[2],
            (Row{"1", "gpu", "1", "1795248641678828000", "alloc", "0x7f1ca0000000", "1000", "0",
                 "0:0", "", "", file + ":12 forward;" + file + ":4000000000 <module>", ""}));
  EXPECT_EQ(rows[3],
            (Row{"1", "gpu", "2", "1795248641678830000", "alloc", "0x7f1ca0000400", "512",
                 "18446744073709551360", "0:7", "0/1", "line\nbreak", file + ":12 forward", ""}));
  EXPECT_EQ(rows[7][4], "oom");
  EXPECT_EQ(rows[7][8], "");  // the pool is not known
  EXPECT_EQ(rows[14], (Row{"0", "host", "0", "9223372036854775807", "alloc", "0x1000", "1", "0",
                           "0:0", "", "", "", ""}));
}

// An event with this text, and frames of this file.
Trace trace_with(std::string_view metadata, std::string_view file) {
  Trace trace = sample_trace();
  StringTable strings;
  for (StringId id = 0; id < trace.tables.strings.size(); ++id) {
    const std::string_view text = trace.tables.strings[id];
    const bool is_metadata = text == "line\nbreak";
    EXPECT_EQ(strings.intern(is_metadata ? metadata : text.ends_with(".py") ? file : text), id);
  }
  trace.tables.strings = std::move(strings);
  return trace;
}

TEST(ExportCsv, TextsAreExactUnlessASpreadsheetWouldCalculateThem) {
  const auto for_spreadsheets = [](const Trace& trace, const std::string& path, Replace replace) {
    return export_csv(trace, path, replace, CsvTexts::kForSpreadsheets);
  };
  const Trace trace = trace_with("=1+1", "@run.py");
  const Row exact = parse_csv(csv_of(trace))[2];
  const Row escaped = parse_csv(exported(for_spreadsheets, trace))[2];
  EXPECT_EQ(exact[11], "@run.py:12 forward;@run.py:4000000000 <module>");
  EXPECT_EQ(escaped[11], "'@run.py:12 forward;'@run.py:4000000000 <module>");
  EXPECT_EQ(Row(exact.begin(), exact.begin() + 11), Row(escaped.begin(), escaped.begin() + 11));
  for (const std::string text : {"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "a;=1", "a,-1"}) {
    const Trace with_text = trace_with(text, "run.py");
    EXPECT_EQ(parse_csv(csv_of(with_text))[3][10], text);
    const std::string found = parse_csv(exported(for_spreadsheets, with_text))[3][10];
    EXPECT_THAT(found, testing::ContainsRegex("^'|[;,]'")) << text;
  }
  for (const std::string text : {"a=1", "x - y", "'=1", "line\nbreak"})
    EXPECT_EQ(parse_csv(exported(for_spreadsheets, trace_with(text, "run.py")))[3][10], text);
}

TEST(ExportCsv, WithoutAClockTheTimeIsEmpty) {
  Trace trace = sample_trace();
  trace.has_time = false;
  EXPECT_EQ(parse_csv(csv_of(trace))[1][3], "");
  EXPECT_THAT(jsonl_of(trace), testing::HasSubstr(R"("time_ns":null)"));
}

TEST(ExportJsonl, OneObjectAnEvent) {
  const Trace trace = sample_trace();
  std::istringstream lines(jsonl_of(trace));
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  ASSERT_EQ(rows.size(), trace.events.size());
  EXPECT_EQ(rows[2], R"({"device":1,"device_kind":"gpu","index":2,"time_ns":1795248641678830000,)"
                     R"("action":"alloc","address":"0x7f1ca0000400","size_bytes":512,)"
                     R"("stream":18446744073709551360,"pool":[0,7],"compile_id":"0/1",)"
                     R"("user_metadata":"line\nbreak","category":null,)"
                     R"("stack":["/home/ada/train \"v2\", néw.py:12 forward"]})");
  EXPECT_THAT(rows[6], testing::HasSubstr(R"("pool":null,"compile_id":null)"));
}

TEST(ExportEscape, QuotesOnlyWhereItMust) {
  const auto field = [](std::string_view text) {
    std::string out;
    append_csv_field(out, text);
    return out;
  };
  EXPECT_EQ(field("plain text; with semicolon"), "plain text; with semicolon");
  EXPECT_EQ(field(""), "");
  EXPECT_EQ(field("a,b"), "\"a,b\"");
  EXPECT_EQ(field("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(field("a\nb"), "\"a\nb\"");
  EXPECT_EQ(field("\xff"), "\xEF\xBF\xBD");
}

TEST(ExportEscape, JsonStringsHideEveryControlCharacter) {
  std::string out;
  append_json_string(out, std::string_view("\0\x1f\"\\\b\n\r\t\x7f/é\xff", 13));
  EXPECT_EQ(out, "\"\\u0000\\u001f\\\"\\\\\\u0008\\n\\r\\t\x7f/é\xEF\xBF\xBD\"");
}

TEST(Export, SaysWhyAFileCannotBe) {
  EXPECT_FALSE(export_csv(sample_trace(), "/nowhere/at/all.csv"));
  EXPECT_FALSE(export_jsonl(sample_trace(), "/nowhere/at/all.jsonl"));
}

}  // namespace
}  // namespace vram::trace
