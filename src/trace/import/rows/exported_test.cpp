#include "trace/import/rows/exported.hpp"

#include "trace/export/export.hpp"
#include "trace/import/rows/row.hpp"
#include "trace/testing/import_bytes.hpp"
#include "trace/testing/sample_trace.hpp"
#include "trace/testing/synthetic_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>
#include <unistd.h>

namespace vram::trace {
namespace {

using testing::HasSubstr;

constexpr std::string_view kHead =
    "device,device_kind,index,time_ns,action,address,size_bytes,stream,pool\n";

Result<Trace> import_text(std::string_view text) {
  const auto source = memory_source(bytes_of(text));
  const auto form = exported_form(bytes_of(text.substr(0, 16)));
  EXPECT_TRUE(form) << text.substr(0, 40);
  return import_exported(*source, *form);
}

std::string export_text(const Trace& trace, ExportForm form) {
  const std::string path = testing::TempDir() + "exported_test." + std::to_string(getpid());
  const auto done = form == ExportForm::kCsv ? export_csv(trace, path) : export_jsonl(trace, path);
  EXPECT_TRUE(done) << done.error().message;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::remove(path.c_str());
  return text;
}

// What an event says, without the ids of one trace's tables.
std::string spelled(const Trace& trace, const Event& event) {
  const Tables& tables = trace.tables;
  const Context& context = tables.contexts[event.context];
  std::string text = fmt::format(
      "{} {} {:#x} {} stream {} pool {} '{}' '{}' '{}'", to_string(event.kind), event.time_ns,
      event.address, event.size_bytes, tables.streams[event.stream],
      event.pool == kUnknownPool
          ? "?"
          : fmt::format("{}:{}", tables.pools[event.pool].first, tables.pools[event.pool].second),
      tables.strings[context.compile_id], tables.strings[context.user_metadata],
      tables.strings[context.category]);
  for (const FrameId id : tables.stacks[event.stack]) {
    const Frame& frame = tables.frames[id];
    text += fmt::format("; {} | {} | {}", tables.strings[frame.file], frame.line,
                        tables.strings[frame.function]);
  }
  return text;
}

void expect_same_events(const Trace& before, const Trace& after) {
  EXPECT_EQ(before.has_time, after.has_time);
  EXPECT_EQ(before.has_stacks, after.has_stacks);
  EXPECT_EQ(before.has_pools, after.has_pools);
  ASSERT_EQ(before.devices.size(), after.devices.size());
  ASSERT_EQ(before.events.size(), after.events.size());
  for (const DeviceTrace& device : before.devices) {
    const auto same = std::ranges::find_if(after.devices, [&](const DeviceTrace& other) {
      return other.kind == device.kind && other.ordinal == device.ordinal;
    });
    ASSERT_NE(same, after.devices.end());
    ASSERT_EQ(same->event_count, device.event_count);
    for (uint64_t i = 0; i < device.event_count; ++i) {
      ASSERT_EQ(spelled(after, after.events_of(*same)[i]),
                spelled(before, before.events_of(device)[i]));
    }
  }
}

class ImportExported : public testing::TestWithParam<ExportForm> {};

TEST_P(ImportExported, ReadsBackWhatWasWritten) {
  const Trace sample = sample_trace();
  const auto read = import_text(export_text(sample, GetParam()));
  ASSERT_TRUE(read) << read.error().message;
  expect_same_events(sample, *read);
  EXPECT_FALSE(read->origin.truncated_at_byte);
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const Trace synthetic = synthetic_trace(
        {.events = 3000, .devices = 2, .with_stacks = seed != 2, .with_pools = true, .seed = seed});
    const auto again = import_text(export_text(synthetic, GetParam()));
    ASSERT_TRUE(again) << again.error().message;
    expect_same_events(synthetic, *again);
  }
}

TEST_P(ImportExported, WithoutAClockThereIsNone) {
  Trace trace = sample_trace();
  trace.has_time = false;
  for (Event& event : trace.events) event.time_ns = 0;
  const auto read = import_text(export_text(trace, GetParam()));
  ASSERT_TRUE(read) << read.error().message;
  expect_same_events(trace, *read);
}

// A cut file gives the rows before the cut; damaged bytes give an error or other rows, never more.
TEST_P(ImportExported, CutAndDamagedTextIsHarmless) {
  const std::string text = export_text(sample_trace(), GetParam());
  const auto events_in = [&](std::string_view part) {
    const auto read = import_text(part);
    return read ? read->events.size() : 0;
  };
  size_t before = 0;
  for (size_t end = 200; end < text.size(); ++end) {
    const size_t events = events_in(std::string_view(text).substr(0, end));
    EXPECT_GE(events, before) << end;
    before = events;
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    damaged[20 + random() % (text.size() - 20)] = static_cast<char>(random());
    EXPECT_LE(events_in(damaged), 16U);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ImportExported,
                         testing::Values(ExportForm::kCsv, ExportForm::kJsonLines));

TEST(ImportCsv, FieldsAreUnquotedAndColumnsFoundByName) {
  const auto read = import_text(
      "device,device_kind,user_metadata,new,stream,pool,size_bytes,address,action,time_ns\r\n"
      "3,host,\"\"\"a\"\", b\nc\",x,1,0:7,512,0x10,alloc,5\r\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(spelled(*read, read->events[0]),
            "alloc 5 0x10 512 stream 1 pool 0:7 '' '\"a\", b\nc' ''");
  EXPECT_EQ(read->devices[0].ordinal, 3U);
}

TEST(ImportJsonLines, SpacesEscapesAndUnknownMembersAreRead) {
  const auto read = import_text(
      R"({"device": 0, "extra": {"a": [1, null, "}"]}, "device_kind": "gpu", "time_ns": null,)"
      R"( "action": "alloc", "address": "0x10", "size_bytes": 8, "stream": 0, "pool": null,)"
      R"( "user_metadata": "\u00e9\ud83d\ude00\n", "stack": ["a b.py:3 f", "? g"]})"
      "\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(spelled(*read, read->events[0]),
            "alloc 0 0x10 8 stream 0 pool ? '' 'é😀\n' ''; a b.py | 3 | f;  | 0 | g");
}

TEST(ImportRows, MoreThanThereIsMemoryForIsRefused) {
  Trace trace;
  rows::Row row;
  row.action = "alloc";
  rows::Collector events(trace, 10 * sizeof(Event));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(events.add(row));
  const auto refused = events.add(row);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
  EXPECT_THAT(refused.error().message, HasSubstr("needs more than"));
  row.user_metadata = std::string(11 * sizeof(Event), 'x');
  EXPECT_FALSE(rows::Collector(trace, 10 * sizeof(Event)).add(row));
  row.user_metadata.clear();
  row.stack = std::string(11 * sizeof(Event), 'x') + rows::kFrameEnd;
  EXPECT_FALSE(rows::Collector(trace, 10 * sizeof(Event)).add(row));
}

TEST(ImportExportedErrors, NameTheRowAndWhatWasExpected) {
  const std::pair<std::string, const char*> texts[] = {
      {std::string(kHead) + "0,gpu,0,1,alloc,0x10\n", "row 2: expected 9 fields, found 6"},
      {std::string(kHead) + "0,gpu,0,1,alloc,16,8,0,\n",
       "row 2: address: expected an address such as 0x7f1ca0000000, found '16'"},
      {std::string(kHead) + "0,gpu,0,soon,alloc,0x10,8,0,\n",
       "row 2: time_ns: expected a whole number, found 'soon'"},
      {"device,device_kind,index\n", "row 1: expected one column 'time_ns', found 0"},
      {"{\"device\":0}\n", "row 1: expected a member 'device_kind', found none"},
      {"{\"device\":-1}\n", "row 1: device: expected a whole number, found '-1'"},
      {"{\"device\":0 \"action\"\n", "row 1: expected }, found '\"action\"'"},
      {"{\"device\":0,\"x\":" + std::string(100, '[') + "\n", "at most 32 levels"}};
  for (const auto& [text, words] : texts) {
    const auto read = import_text(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(words));
  }
}

}  // namespace
}  // namespace vram::trace
