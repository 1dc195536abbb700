// Files that are no recordings, or were made to harm.
#include "trace/testing/import_bytes.hpp"
#include "trace/testing/trace_equality.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <string_view>

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

TEST(HostileSnapshotTest, LimitsTextsThatSettingsShare) {
  constexpr size_t kBytes = 1 << 20;
  const std::string shared = "X\x00\x00\x10\x00"s + std::string(kBytes, 'v') + "\x94";
  const std::string again = "h\x00"s;
  const std::string settings =
      dict(text("a") + shared + text("b") + list("K\x01" + again) + text("c") +
           list(again + again) + again + dict(again + "K\x01"));
  const Result<Trace> trace =
      import_bytes(proto(dict(text("segments") + "]" + text("allocator_settings") + settings)));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->settings.size(), 4U);
  EXPECT_TRUE(trace->settings[0].value == std::string(kMaxNameBytes, 'v') + "…");
  for (const auto& [key, value] : trace->settings) {
    EXPECT_LT(key.size(), kMaxNameBytes + 8);
    EXPECT_LT(value.size(), kMaxNameBytes + 8) << key.substr(0, 8);
  }
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

TEST(HostileSnapshotTest, NamesOfFxNodesCountAsMemory) {
  // 40,000 frames of 60 bytes each, which share the text that each of their names repeats.
  const std::string shared = "X\x00\x02\x00\x00"s + std::string(512, 'x') + "\x94";
  std::string frames = "](";
  for (int i = 0; i < 40'000; ++i) {
    frames += dict(text("name") + text("f") + text("line") + "K\x01" + text("fx_node_op") +
                   (i == 0 ? shared : "h\x00"s) + text("fx_node_name") + text(std::to_string(i)));
  }
  const std::string entry = dict(text("action") + text("alloc") + text("addr") + "K\x01" +
                                 text("size") + "K\x02" + text("frames") + frames + "e");
  const std::string bytes = proto(dict(text("device_traces") + list(list(entry))));
  const Result<Trace> trace = import_bytes(bytes, {}, {.max_memory_bytes = 8 << 20});
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().message, HasSubstr("more than 8 MiB of memory"));
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

// Files that end early, at every byte; packed files that do; and the report of the loss.

namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

class CutTest : public testing::TestWithParam<const char*> {};

// The records of `trace` are the first ones of `whole`, unchanged.
void expect_prefix(const Trace& trace, const Trace& whole) {
  for (const DeviceTrace& device : trace.devices) {
    const DeviceTrace* of = nullptr;
    for (const DeviceTrace& candidate : whole.devices) {
      if (candidate.kind == device.kind && candidate.ordinal == device.ordinal) of = &candidate;
    }
    ASSERT_NE(of, nullptr);
    ASSERT_LE(device.event_count, of->event_count);
    const auto events = trace.events_of(device);
    const auto all = whole.events_of(*of);
    for (size_t i = 0; i < events.size(); ++i) {
      // The pool may have to be deduced from segments that were lost.
      const auto facts = [](const Trace& t, const Event& e) {
        return std::tuple(e.kind, e.address, e.size_bytes, e.time_ns, t.tables.streams[e.stream],
                          stack_text(t.tables, e.stack));
      };
      ASSERT_EQ(facts(trace, events[i]), facts(whole, all[i])) << i;
    }
    ASSERT_LE(device.segments.size(), of->segments.size());
    for (size_t i = 0; i < device.segments.size(); ++i) {
      ASSERT_EQ(segment_text(trace.tables, device, device.segments[i]),
                segment_text(whole.tables, *of, of->segments[i]));
    }
  }
}

uint64_t segments_in(const Trace& trace) {
  uint64_t count = 0;
  for (const DeviceTrace& device : trace.devices) count += device.segments.size();
  return count;
}

TEST_P(CutTest, KeepsWhatIsWholeAtEveryByte) {
  const std::string bytes = test_file(std::string("snapshots/") + GetParam() + ".pickle");
  const Result<Trace> whole = import_bytes(bytes);
  ASSERT_TRUE(whole) << whole.error().message;
  uint64_t events = 0;
  uint64_t segments = 0;
  for (size_t cut = 2; cut < bytes.size(); ++cut) {
    SCOPED_TRACE(cut);
    const Result<Trace> trace = import_bytes(std::string_view(bytes).substr(0, cut));
    if (!trace) {
      ASSERT_THAT(trace.error().message, HasSubstr(fmt::format("the file ends at byte {}", cut)));
      ASSERT_EQ(events + segments, 0U);
      continue;
    }
    ASSERT_EQ(trace->origin.truncated_at_byte, cut);
    expect_prefix(*trace, *whole);
    // More of the file never gives less.
    ASSERT_GE(trace->events.size(), events);
    ASSERT_GE(segments_in(*trace), segments);
    events = trace->events.size();
    segments = segments_in(*trace);
  }
  EXPECT_EQ(events, whole->events.size());
  EXPECT_EQ(segments, segments_in(*whole));
}

// Not the profile-derived one: which of its traces is the CPU's cannot be known before the last.
INSTANTIATE_TEST_SUITE_P(Fixtures, CutTest,
                         testing::Values("v2.8.p4", "v2.8.p2", "v2.8.ts", "v2.2.p4", "v1.13.p3",
                                         "v2.1.ts", "v2.12.p5", "main.p4", "list.p4", "list.ts"),
                         [](const auto& fixture) {
                           std::string name = fixture.param;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

TEST(CutSnapshotTest, SaysWhatIsLost) {
  const std::string bytes = test_file("snapshots/v2.2.p4.pickle");
  const auto note = [](const char* text) { return Contains(Field(&Note::text, HasSubstr(text))); };
  // Within the segments, which come first.
  const Result<Trace> in_segments = import_bytes(std::string_view(bytes).substr(0, 900));
  ASSERT_TRUE(in_segments) << in_segments.error().message;
  EXPECT_THAT(in_segments->origin.notes, note("lost: some of the segments"));
  EXPECT_THAT(in_segments->origin.notes, note("lost: the events of all devices"));
  for (const DeviceTrace& device : in_segments->devices) EXPECT_FALSE(device.has_end_state);
  // Within the events of the last device: the others are complete.
  const Result<Trace> in_events = import_bytes(std::string_view(bytes).substr(0, 8000));
  ASSERT_TRUE(in_events) << in_events.error().message;
  ASSERT_EQ(in_events->devices.size(), 2U);
  EXPECT_THAT(in_events->origin.notes, note("lost: the events of device 2 after its number"));
  EXPECT_TRUE(in_events->devices[0].has_end_state);
  EXPECT_FALSE(in_events->devices[1].has_end_state);
  EXPECT_FALSE(in_events->devices[1].segments.empty());
}

// Two MARKs on one dictionary: with the first it is left out, and the second has nothing below it.
TEST(CutSnapshotTest, EndsAfterAMarkThatHasNothingBelowIt) {
  for (const std::string_view bytes :
       {"\x80\x04}((", "\x80\x04}(((", "\x80\x04]}((K\x01", "\x80\x04}(}(("}) {
    const Result<Trace> trace = import_bytes(bytes);
    ASSERT_FALSE(trace);
    EXPECT_THAT(trace.error().message, testing::HasSubstr("the file ends at byte"));
  }
}

TEST(CutSnapshotTest, KeepsWhatIsWholeOfACutArchive) {
  const std::string bytes = test_file("snapshots/v2.8.p4.pickle");
  std::string packed(compressBound(bytes.size()) + 64, '\0');
  z_stream stream = {};
  ASSERT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const Result<Trace> whole = import_bytes(packed);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->origin.format, "PyTorch snapshot (pickle protocol 4, gz)");
  const Result<Trace> cut = import_bytes(std::string_view(packed).substr(0, packed.size() * 2 / 3));
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_TRUE(cut->origin.truncated_at_byte);
  EXPECT_GT(cut->events.size(), 0U);
  EXPECT_THAT(cut->origin.notes,
              Contains(Field(&Note::text, HasSubstr("the gz data itself ends early"))));
  expect_prefix(*cut, *whole);
}

}  // namespace
}  // namespace vram::trace
