// Files that are no recordings, or were made to harm.
#include "trace/testing/import_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vram::trace {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::HasSubstr;

std::string text(std::string_view of) {
  return "\x8c"s + static_cast<char>(of.size()) + std::string(of);
}
std::string proto(std::string_view body) { return "\x80\x04"s + std::string(body) + '.'; }
std::string dict(std::string_view items) { return "}(" + std::string(items) + 'u'; }
std::string list(std::string_view items) { return "](" + std::string(items) + 'e'; }

std::string error_of(std::string_view bytes) {
  const Result<Trace> trace = import_bytes(bytes);
  return trace ? "none" : trace.error().message;
}

const std::string kEntry =  // NOLINT(cert-err58-cpp)
    dict(text("action") + text("alloc") + text("addr") + "K\x01" + text("size") + "K\x02");
const std::string kBlock =  // NOLINT(cert-err58-cpp)
    dict(text("size") + "K\x02" + text("state") + text("inactive"));

TEST(HostileSnapshotTest, SaysWhatWasExpectedAndFound) {
  EXPECT_THAT(error_of(proto(dict(text("epoch") + "K\x01" + text("model") + "N"))),
              AllOf(HasSubstr("expected a PyTorch memory snapshot"),
                    HasSubstr("found a dictionary with the keys 'epoch', 'model'")));
  EXPECT_THAT(error_of(proto("]")), HasSubstr("found an empty list"));
  EXPECT_THAT(error_of(proto("N")), HasSubstr("found None"));
  EXPECT_THAT(error_of(proto(text("x"))), HasSubstr("found a text"));
  EXPECT_THAT(error_of(proto("K\x01")), HasSubstr("found a number"));
  EXPECT_THAT(error_of(proto(list("K\x01K\x02K\x03"))), HasSubstr("found a list"));
}

TEST(HostileSnapshotTest, RefusesModelsByTheirFirstOpcodeThatNamesCode) {
  // What torch.save without zip, and plain pickles of objects, begin with.
  EXPECT_THAT(error_of(proto("\x8c\x0b"
                             "collections\x8c\x0bOrderedDict\x93)R")),
              HasSubstr("STACK_GLOBAL at byte 28"));
}

TEST(HostileSnapshotTest, RefusesRecordsInTwoPlaces) {
  EXPECT_THAT(error_of(proto(dict(text("device_traces") + list(list(kEntry + "\x94h\x00"s))))),
              HasSubstr("an entry is in two lists or twice in one"));
  EXPECT_THAT(error_of(proto(dict(text("device_traces") + list("](" + kEntry + "e\x94h\x00"s)))),
              HasSubstr("two devices share one list"));
  const std::string first = dict(text("blocks") + "](" + kBlock + "e\x94");
  const std::string second = dict(text("blocks") + "h\x00"s);
  EXPECT_THAT(error_of(proto(dict(text("segments") + list(first + second)))),
              HasSubstr("two segments share one list of blocks"));
}

TEST(HostileSnapshotTest, FlattensNoBillionSettings) {
  // Each dictionary holds the one before twice.
  std::string body = dict(text("a") + "K\x01") +
                     "\x94"
                     "0";
  for (char i = 0; i < 60; ++i) {
    const std::string before = "h"s + i;
    body += dict(text("a") + before + text("b") + before) +
            "\x94"
            "0";
  }
  body += dict(text("segments") + "]" + text("allocator_settings") + "h\x3c");
  const Result<Trace> trace = import_bytes(proto(body));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_LE(trace->settings.size(), 4096U);
}

TEST(HostileSnapshotTest, LimitsFramesOfAStack) {
  // A list of 1,000 references to a frame, 1,000 times, in one list: a million frames of 2 bytes
  // each.
  std::string frames = "](" + dict(text("name") + text("f") + text("line") + "K\x01") + "\x94";
  for (int i = 0; i < 200'000; ++i) frames += "h\x00"s;
  const std::string entry = dict(text("action") + text("alloc") + text("addr") + "K\x01" +
                                 text("size") + "K\x02" + text("frames") + frames + "e");
  const Result<Trace> trace = import_bytes(proto(dict(text("device_traces") + list(list(entry)))));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->events.size(), 1U);
  EXPECT_EQ(trace->tables.stacks[trace->events[0].stack].size(), 65'536U);
}

TEST(HostileSnapshotTest, KeepsToItsMemory) {
  std::string entries = "](";
  for (int i = 0; i < 200'000; ++i) entries += kEntry;
  const std::string bytes = proto(dict(text("device_traces") + list(entries + "e")));
  const Result<Trace> trace = import_bytes(bytes, {}, {.max_memory_bytes = 4 << 20});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kTooLarge);
  EXPECT_THAT(trace.error().message, HasSubstr("more than 4 MiB of memory"));
  EXPECT_EQ(import_bytes(bytes).value().events.size(), 200'000U);
}

TEST(HostileSnapshotTest, TakesNonsenseInFieldsAsUnknown) {
  const std::string entry =
      dict(text("action") + text("alloc") + text("addr") + "]" + text("size") +
           "J\xff\xff\xff\xff" + text("stream") + "N" + text("time_us") + text("yesterday") +
           text("frames") + "K\x05" + text("pool_id") + text("mine") + text("compile_context") +
           "}" + text("user_metadata") + "G\x3f\xf8\x00\x00\x00\x00\x00\x00"s);
  const std::string no_address = dict(text("action") + text("alloc") + text("size") + "K\x02");
  const Result<Trace> trace = import_bytes(
      proto(dict(text("device_traces") + list(list(entry + no_address + "K\x07" + kEntry)))));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->events.size(), 2U);
  const Event& event = trace->events[0];
  EXPECT_EQ(event.address, 0U);
  EXPECT_EQ(event.size_bytes, 0U);
  EXPECT_EQ(event.time_ns, 0);
  EXPECT_EQ(event.pool, kUnknownPool);
  EXPECT_EQ(event.stack, 0U);
  EXPECT_EQ(event.context, 0U);
}

TEST(HostileSnapshotTest, LeavesOutDevicesThatCannotBe) {
  const std::string segment = dict(text("device") + "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s +
                                   text("blocks") + list(kBlock));
  const Result<Trace> trace = import_bytes(proto(dict(text("segments") + list(segment))));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->devices.size(), 1U);
}

}  // namespace
}  // namespace vram::trace
