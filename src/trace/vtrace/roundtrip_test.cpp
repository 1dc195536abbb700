#include "base/testing/paths.hpp"
#include "base/varint.hpp"
#include "trace/open.hpp"
#include "trace/testing/memory_sink.hpp"
#include "trace/testing/sample_trace.hpp"
#include "trace/testing/synthetic_trace.hpp"
#include "trace/testing/trace_equality.hpp"
#include "trace/vtrace/events.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/meta.hpp"
#include "trace/vtrace/state.hpp"
#include "trace/vtrace/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <ranges>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vram::trace {
namespace {

FileBytes written(const Trace& trace) {
  MemorySink sink;
  EXPECT_TRUE(write_vtrace(trace, sink));
  return sink.bytes();
}

TEST(VtraceRoundTrip, KeepsOneOfEverything) {
  const Trace trace = sample_trace();
  const auto back = read_bytes(written(trace));
  ASSERT_TRUE(back) << back.error().message;
  expect_same_trace(trace, *back);
  EXPECT_EQ(back->origin.format, "vtrace 1, from PyTorch snapshot (pickle protocol 4, xz)");
  EXPECT_EQ(back->origin.path, "test.vtrace");
}

TEST(VtraceRoundTrip, ConvertingTwiceNamesTheFirstOriginOnce) {
  const FileBytes once = written(sample_trace());
  const auto back = read_bytes(once);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(written(*back), once);
}

TEST(VtraceRoundTrip, KeepsAnEmptyTrace) {
  const auto back = read_bytes(written(Trace{}));
  ASSERT_TRUE(back) << back.error().message;
  expect_same_trace(Trace{}, *back);
  EXPECT_EQ(back->origin.format, "vtrace 1");
}

TEST(VtraceRoundTrip, KeepsManyFramesOfManyDevices) {
  for (const bool full : {false, true}) {
    const Trace trace =
        synthetic_trace({.events = 150'000, .devices = 3, .with_stacks = full, .with_pools = full});
    const FileBytes bytes = written(trace);
    const auto back = read_bytes(bytes);
    ASSERT_TRUE(back) << back.error().message;
    expect_same_trace(trace, *back);
    EXPECT_FALSE(back->origin.truncated_at_byte);
    EXPECT_LT(bytes.size(), trace.events.size() * (full ? 4 : 2));
  }
}

TEST(VtraceRoundTrip, KeepsEventsThatFollowNoPattern) {
  std::mt19937_64 random(7);
  Trace trace = synthetic_trace({.events = 10, .with_stacks = true, .with_pools = true});
  for (Event& event : std::span(trace.events.begin(), trace.events.end()))
    event.kind = static_cast<EventKind>(1 + random() % 11);
  for (int i = 0; i < 100'000; ++i) {
    Event event;
    event.kind = static_cast<EventKind>(1 + random() % 11);
    event.address = random() >> (random() % 64);
    event.size_bytes = random() >> (random() % 64);
    if (random() % 2 == 0) event.address = trace.events[random() % trace.events.size()].address;
    if (random() % 2 == 0) event = trace.events[random() % trace.events.size()];
    event.kind = random() % 2 == 0 ? event.kind : EventKind::kFreeCompleted;
    event.time_ns = static_cast<int64_t>(random());
    event.stack = static_cast<StackId>(random() % trace.tables.stacks.size());
    event.stream = static_cast<StreamId>(random() % trace.tables.streams.size());
    event.pool = random() % 2 == 0 ? kUnknownPool : PoolId{1};
    trace.events.push_back(event);
  }
  trace.devices[0].event_count = trace.events.size();
  const auto back = read_bytes(written(trace));
  ASSERT_TRUE(back) << back.error().message;
  expect_same_trace(trace, *back);
}

TEST(VtraceRoundTrip, SplitsLongStatesAndAnnotationsOverFrames) {
  Trace trace = synthetic_trace({.events = 100});
  DeviceTrace& device = trace.devices[0];
  Block block = device.blocks[0];
  device.segments.resize(1);
  for (size_t i = 0; i < 2 * kMaxFrameItems + 5; ++i) {
    block.address += block.size_bytes;
    device.blocks.push_back(block);
    trace.annotations.push_back(trace.annotations[0]);
  }
  device.segments[0].block_count = static_cast<uint32_t>(device.blocks.size());
  const auto back = read_bytes(written(trace));
  ASSERT_TRUE(back) << back.error().message;
  expect_same_trace(trace, *back);
}

TEST(VtraceRoundTrip, KeepsFiguresAndMarks) {
  Trace trace = sample_trace();
  StringTable& texts = trace.tables.strings;
  const StringId used = texts.intern("device.used_bytes");
  const StringId name = texts.intern("all_reduce");
  const StringId group = texts.intern("default_pg");
  for (size_t i = 0; i < kMaxFrameItems + 3; ++i) {
    const auto time = static_cast<int64_t>(1'795'248'641'678'827'000 + 1000 * (i % 7));
    trace.figures.push_back(
        {.time_ns = time, .value = UINT64_MAX - i, .name = used, .device = kNoDevice});
    trace.marks.push_back({.time_ns = time,
                           .duration_ns = i == 0 ? INT64_MAX : 12,
                           .size_bytes = i << 40,
                           .name = name,
                           .group = group,
                           .device = static_cast<uint32_t>(i),
                           .kind = static_cast<MarkKind>(i % kMarkKinds)});
  }
  const auto back = read_bytes(written(trace));
  ASSERT_TRUE(back) << back.error().message;
  expect_same_trace(trace, *back);
}

// A reader that does not know them skips these frames: they carry the flag for that.
TEST(VtraceRoundTrip, OlderReadersMaySkipFiguresAndMarks) {
  Trace trace = sample_trace();
  trace.figures.push_back({.time_ns = 1, .value = 2});
  trace.marks.push_back({.time_ns = 1});
  MemorySink sink;
  ASSERT_TRUE(write_vtrace(trace, sink));
  const MemorySource source(sink.bytes());
  FrameReader frames(source);
  size_t skippable = 0;
  for (uint64_t at = kFileHeaderBytes;;) {
    const auto header = frames.header_at(at);
    ASSERT_TRUE(header);
    if (header->type == FrameType::kIndex) break;
    if (header->type == FrameType::kFigures || header->type == FrameType::kMarks)
      skippable += (header->flags & kFrameSkippable) != 0;
    at += kFrameHeaderBytes + header->payload_bytes;
  }
  EXPECT_EQ(skippable, 2u);
}

TEST(VtraceRoundTrip, AMarkOfALaterKindIsAnotherOne) {
  PodVector<uint8_t> content;
  Mark mark{.size_bytes = 5};
  mark.kind = static_cast<MarkKind>(99);
  encode_marks(std::span(&mark, 1), content);
  std::vector<Mark> marks;
  ASSERT_TRUE(decode_marks(content.span(), {.strings = 1}, marks));
  EXPECT_EQ(marks.at(0).kind, MarkKind::kOther);
  mark.group = 1;
  encode_marks(std::span(&mark, 1), content);
  EXPECT_FALSE(decode_marks(content.span(), {.strings = 1}, marks));
  EXPECT_EQ(marks.size(), 1u);
}

TEST(VtraceRoundTrip, SplitsLargeTablesOverFrames) {
  Trace trace = synthetic_trace({.events = 100});
  for (int i = 0; i < 300'000; ++i) {
    const StringId name =
        trace.tables.strings.intern(fmt::format("a function of some length {}", i));
    const FrameId frame = trace.tables.frames.intern({.function = name, .line = 3});
    trace.tables.stacks.intern(std::span(&frame, 1));
  }
  const auto back = read_bytes(written(trace));
  ASSERT_TRUE(back) << back.error().message;
  expect_same_trace(trace, *back);
}

TEST(VtraceRoundTrip, ThroughAFile) {
  const std::string path = testing::TempDir() + "roundtrip." + std::to_string(getpid()) + ".vtrace";
  const Trace trace = sample_trace();
  ASSERT_TRUE(write_vtrace(trace, path));
  const auto back = open_trace(path);
  ASSERT_TRUE(back) << back.error().message;
  expect_same_trace(trace, *back);
  EXPECT_EQ(back->origin.path, path);
  EXPECT_GT(back->origin.file_bytes, 0u);
  std::remove(path.c_str());
}

// A recorder in a process that runs: tables grow as it goes, devices take turns, frames go out when
// it says so.
TEST(VtraceWriter, WritesAsARecorderGoes) {
  Tables tables;
  MemorySink sink;
  auto writer = VtraceWriter::open(sink, tables, {.has_time = true});
  ASSERT_TRUE(writer) << writer.error().message;
  const auto first = writer->add_device(DeviceKind::kGpu, 1);
  const auto second = writer->add_device(DeviceKind::kGpu, 0);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(writer->add_device(DeviceKind::kGpu, 1));
  Event event = sample_event(EventKind::kAlloc, 512, 100, 1'000);
  for (int turn = 0; turn < 3; ++turn) {
    const FrameId frame = tables.frames.intern(
        {.function = tables.strings.intern(fmt::format("turn {}", turn)), .line = 1});
    event.stack = tables.stacks.intern(std::span(&frame, 1));
    ASSERT_TRUE(writer->append(*first, std::span(&event, 1)));
    event.address += 512;
    ASSERT_TRUE(writer->append(*second, std::span(&event, 1)));
    ASSERT_TRUE(writer->flush());
    const auto so_far = read_bytes(sink.bytes());
    ASSERT_TRUE(so_far) << so_far.error().message;
    EXPECT_EQ(so_far->events.size(), 2u * static_cast<size_t>(turn + 1));
    EXPECT_EQ(so_far->origin.truncated_at_byte, sink.bytes().size());
  }
  const Segment early{.address = 512, .size_bytes = 1024};
  ASSERT_TRUE(writer->append_state(*first, std::span(&early, 1), {}));
  ASSERT_TRUE(writer->append_state(*second, {}, {}));
  ASSERT_TRUE(writer->append(*second, std::span(&event, 1)));
  ASSERT_TRUE(writer->finish());

  const auto trace = read_bytes(sink.bytes());
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_FALSE(trace->origin.truncated_at_byte);
  ASSERT_EQ(trace->devices.size(), 2u);
  EXPECT_EQ(trace->devices[0].ordinal, 0u);
  EXPECT_FALSE(trace->devices[0].has_end_state);  // an event came after its state
  EXPECT_EQ(trace->devices[0].event_count, 4u);
  EXPECT_TRUE(trace->devices[1].has_end_state);
  EXPECT_EQ(trace->devices[1].segments.size(), 1u);
  EXPECT_EQ(trace->events_of(trace->devices[1])[2].stack, 3u);
}

TEST(VtraceWriter, HandsTheSinksErrorOn) {
  class FullDisk final : public VtraceSink {
    Result<> write(std::string_view) override { return fail(Code::kIo, "disk full"); }
  } disk;
  const auto done = write_vtrace(sample_trace(), disk);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "disk full");
}

}  // namespace

// The example of docs/vtrace.md is the file it says it is.

namespace {

// The bytes of the page's ```hex block; '#' starts a comment.
FileBytes example_bytes() {
  std::ifstream page(source_path("docs/vtrace.md"));
  EXPECT_TRUE(page.is_open());
  FileBytes bytes;
  bool is_inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) is_inside = line == "```hex";
    if (!is_inside || line.starts_with("```")) continue;
    line.resize(std::min(line.find('#'), line.size()));
    for (size_t at = 0; (at = line.find_first_not_of(' ', at)) != line.npos; at += 2)
      bytes.push_back(static_cast<uint8_t>(std::stoul(line.substr(at, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(VtraceDocs, TheExampleReadsAsThePageSays) {
  const FileBytes bytes = example_bytes();
  ASSERT_EQ(bytes.size(), 393u);
  const auto trace = read_bytes(bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_TRUE(trace->origin.notes.empty());
  constexpr uint64_t kAddress = uint64_t{0x3f8e5} << 29;
  constexpr int64_t kStart = 1'795'248'641'678'827'000;
  ASSERT_EQ(trace->events.size(), 4u);
  Event expected[] = {sample_event(EventKind::kSegmentAlloc, kAddress, 2 << 20, kStart),
                      sample_event(EventKind::kAlloc, kAddress, 1000, kStart + 5'000),
                      sample_event(EventKind::kFreeRequested, kAddress, 1000, kStart + 45'000),
                      sample_event(EventKind::kFreeCompleted, kAddress, 1000, kStart + 46'000)};
  for (size_t i = 0; i < 4; ++i) {
    expected[i].stack = i == 0 ? 0 : 1;
    EXPECT_EQ(trace->events[i], expected[i]) << i;
  }
  const Frame& frame = trace->tables.frames[trace->tables.stacks[1][0]];
  EXPECT_EQ(trace->tables.strings[frame.file], "train.py");
  EXPECT_EQ(trace->tables.strings[frame.function], "step");
  EXPECT_EQ(frame.line, 12u);
}

// The contents of the file's frames: what a writer decides, where zstd's own bytes may differ
// between its versions.
std::vector<FileBytes> contents_of(const FileBytes& bytes) {
  const MemorySource source(bytes);
  FrameReader frames(source);
  std::vector<FileBytes> contents;
  for (uint64_t offset = kFileHeaderBytes; offset + kTrailerBytes < bytes.size();) {
    const auto header = frames.header_at(offset);
    if (!header) break;
    const auto content = frames.content_of(offset, *header).value();
    if (header->type == FrameType::kIndex) break;  // it holds the payloads' lengths
    contents.emplace_back(content.begin(), content.end());
    offset += kFrameHeaderBytes + header->payload_bytes;
  }
  return contents;
}

TEST(VtraceDocs, TheExampleIsWhatTheWriterWrites) {
  const FileBytes bytes = example_bytes();
  const auto trace = read_bytes(bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  MemorySink sink;
  ASSERT_TRUE(write_vtrace(*trace, sink));
  EXPECT_EQ(contents_of(sink.bytes()), contents_of(bytes));
  EXPECT_EQ(contents_of(bytes).size(), 3u);
}

}  // namespace

namespace {

struct IndexedFrame {
  uint64_t offset = 0;
  FrameHeader header;
};

// As docs/vtrace.md says, and as a program that reads parts of a file would.
std::vector<IndexedFrame> frames_in_index(std::span<const uint8_t> content) {
  VarintReader reader(content);
  std::vector<IndexedFrame> frames(reader.get_count());
  uint64_t offset = kFileHeaderBytes;
  uint64_t time = 0;
  for (IndexedFrame& frame : frames) {
    frame.offset = offset;
    frame.header.type = static_cast<FrameType>(reader.get());
    frame.header.flags = static_cast<uint8_t>(reader.get());
    frame.header.device = static_cast<uint16_t>(reader.get());
    frame.header.payload_bytes = static_cast<uint32_t>(reader.get());
    frame.header.item_count = static_cast<uint32_t>(reader.get());
    frame.header.first_event = reader.get();
    time += static_cast<uint64_t>(reader.get_signed());
    frame.header.min_time_ns = static_cast<int64_t>(time);
    frame.header.max_time_ns =
        static_cast<int64_t>(time + static_cast<uint64_t>(reader.get_signed()));
    offset += kFrameHeaderBytes + frame.header.payload_bytes;
  }
  EXPECT_TRUE(reader.done());
  return frames;
}

class VtraceIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    const uint64_t at = reader_.trailer_at(bytes_.size() - kTrailerBytes).value();
    const FrameHeader header = reader_.header_at(at).value();
    ASSERT_EQ(header.type, FrameType::kIndex);
    frames_ = frames_in_index(reader_.content_of(at, header).value());
    ASSERT_FALSE(frames_.empty());
    EXPECT_EQ(frames_.back().offset + kFrameHeaderBytes + frames_.back().header.payload_bytes, at);
  }

  const Trace trace_ = synthetic_trace({.events = 200'000, .devices = 2, .with_stacks = true});
  const FileBytes bytes_ = written(trace_);
  const MemorySource source_{bytes_};
  FrameReader reader_{source_};
  std::vector<IndexedFrame> frames_;
};

TEST_F(VtraceIndex, SaysWhatTheHeadersOfTheFramesSay) {
  for (const IndexedFrame& frame : frames_) {
    FrameHeader header = reader_.header_at(frame.offset).value();
    header.content_bytes = 0;  // not in the index
    EXPECT_EQ(frame.header, header);
  }
}

TEST_F(VtraceIndex, AFrameOfEventsNeedsNoFrameBeforeItButTables) {
  size_t seen = 0;
  for (const IndexedFrame& frame : std::views::reverse(frames_)) {
    if (frame.header.type != FrameType::kEvents) continue;
    const FrameHeader header = reader_.header_at(frame.offset).value();
    const auto content = reader_.content_of(frame.offset, header).value();
    PodVector<Event> events;
    ASSERT_TRUE(EventDecoder().decode(header, content, sizes_of(trace_.tables), events));
    const auto all = trace_.events_of(trace_.devices[header.device]);
    expect_same_items(events.span(), all.subspan(header.first_event, events.size()), "event");
    for (const Event& event : events.span()) {
      EXPECT_GE(event.time_ns, header.min_time_ns);
      EXPECT_LE(event.time_ns, header.max_time_ns);
    }
    seen += events.size();
  }
  EXPECT_EQ(seen, trace_.events.size());
}

}  // namespace

}  // namespace vram::trace
