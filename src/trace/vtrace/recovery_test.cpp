// What becomes of a file that was cut anywhere, damaged anywhere, or made to harm.
#include "base/testing/paths.hpp"
#include "base/varint.hpp"
#include "trace/open.hpp"
#include "trace/testing/memory_sink.hpp"
#include "trace/testing/sample_trace.hpp"
#include "trace/testing/synthetic_trace.hpp"
#include "trace/testing/trace_equality.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/meta.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace vram::trace {
namespace {

// A recorder's file: two devices in turns, five frames of events, tables that grow.
struct Recording {
  MemorySink sink;
  Trace trace;                              // what was recorded
  std::vector<uint64_t> events_by_write{};  // events in the file up to and with each write
};

Recording recording() {
  Recording made;
  made.trace = synthetic_trace({.events = 60, .devices = 2, .with_stacks = true});
  const Trace& trace = made.trace;
  auto writer = VtraceWriter::open(made.sink, trace.tables).value();
  for (const DeviceTrace& device : trace.devices)
    EXPECT_TRUE(writer.add_device(device.kind, device.ordinal));
  uint64_t events = 0;
  const auto note_writes = [&](uint64_t added) {
    made.events_by_write.resize(made.sink.starts().size(), events);
    made.events_by_write.back() = events += added;
  };
  for (size_t start = 0; start < trace.devices[1].event_count; start += 50)
    for (DeviceIndex i = 0; i < 2; ++i) {
      const auto all = trace.events_of(trace.devices[i]);
      const auto part = all.subspan(start, std::min<size_t>(50, all.size() - start));
      EXPECT_TRUE(writer.append(i, part));
      EXPECT_TRUE(writer.flush());
      note_writes(part.size());
    }
  EXPECT_TRUE(writer.append_annotations(trace.annotations));
  for (DeviceIndex i = 0; i < 2; ++i)
    EXPECT_TRUE(writer.append_state(i, trace.devices[i].segments, trace.devices[i].blocks.span()));
  EXPECT_TRUE(writer.finish());
  note_writes(0);
  return made;
}

// The events a reader must find in the first size bytes: those of the whole writes.
uint64_t events_before(const Recording& made, size_t size) {
  const auto& starts = made.sink.starts();
  uint64_t events = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t end = i + 1 < starts.size() ? starts[i + 1] : made.sink.bytes().size();
    if (end <= size) events = made.events_by_write[i];
  }
  return events;
}

void expect_beginning_of(const Trace& part, const Trace& whole) {
  for (const DeviceTrace& device : part.devices) {
    const auto same =
        std::find_if(whole.devices.begin(), whole.devices.end(),
                     [&](const DeviceTrace& other) { return other.ordinal == device.ordinal; });
    ASSERT_NE(same, whole.devices.end());
    const auto all = whole.events_of(*same);
    ASSERT_LE(device.event_count, all.size());
    expect_same_items(part.events_of(device), all.first(device.event_count), "event");
  }
}

TEST(VtraceRecovery, AFileCutAnywhereGivesEveryWholeFrameAndSaysSo) {
  const Recording made = recording();
  const FileBytes& bytes = made.sink.bytes();
  ASSERT_GE(made.sink.starts().size(), 8u);
  for (size_t size = 0; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    const auto trace = read_bytes(std::span(bytes).first(size));
    if (size < kFileHeaderBytes) {
      ASSERT_FALSE(trace);
      EXPECT_EQ(trace.error().code, Code::kBadInput);
      continue;
    }
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->events.size(), events_before(made, size));
    expect_beginning_of(*trace, made.trace);
    ASSERT_TRUE(trace->origin.truncated_at_byte);
    EXPECT_LE(*trace->origin.truncated_at_byte, size);
    EXPECT_TRUE(std::count(made.sink.starts().begin(), made.sink.starts().end(),
                           *trace->origin.truncated_at_byte) == 1 ||
                *trace->origin.truncated_at_byte == size);
    EXPECT_EQ(trace->origin.notes.size(), 1u);
  }
  const auto whole = read_bytes(bytes);
  ASSERT_TRUE(whole) << whole.error().message;
  expect_same_items(whole->events.span(), made.trace.events.span(), "event");
  EXPECT_FALSE(whole->origin.truncated_at_byte);
}

TEST(VtraceRecovery, ADamagedByteIsNoticedAndWhatCameBeforeIsKept) {
  const Recording made = recording();
  for (size_t at = 0; at < made.sink.bytes().size(); ++at)
    for (const uint8_t flip : std::array<uint8_t, 3>{0x01, 0x80, 0xff}) {
      SCOPED_TRACE(fmt::format("byte {} xor {}", at, flip));
      FileBytes bytes = made.sink.bytes();
      bytes[at] ^= flip;
      const auto trace = read_bytes(bytes);
      if (!trace) {
        EXPECT_LT(at, kFileHeaderBytes);
        continue;
      }
      expect_beginning_of(*trace, made.trace);
      EXPECT_GE(trace->events.size(), events_before(made, at));
      // zstd has bits that mean nothing; damage there leaves the content, which its checksum
      // covers, as it was.
      const bool nothing_changed =
          trace->events.size() == made.trace.events.size() && !trace->origin.truncated_at_byte;
      if (!nothing_changed) {
        ASSERT_TRUE(trace->origin.truncated_at_byte);
        EXPECT_LE(*trace->origin.truncated_at_byte, at);
      }
    }
}

TEST(VtraceRecovery, SaysWhyItStopped) {
  FileBytes bytes = recording().sink.bytes();
  bytes[kFileHeaderBytes + kFrameHeaderBytes + 20] ^= 0xff;
  const auto trace = read_bytes(bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->origin.notes.size(), 1u);
  EXPECT_THAT(trace->origin.notes[0].text, testing::HasSubstr("no whole frame at byte 24"));
  EXPECT_EQ(trace->origin.truncated_at_byte, 24u);
}

TEST(VtraceRecovery, BytesBehindTheEndAreMentioned) {
  FileBytes bytes = recording().sink.bytes();
  bytes.push_back(0);
  const auto trace = read_bytes(bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->origin.truncated_at_byte, bytes.size() - 1);
}

TEST(VtraceVersions, ANewerVersionIsRefusedByName) {
  const auto header = encode_file_header({.version = 7});
  const auto trace = read_bytes(header);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kUnsupported);
  EXPECT_THAT(trace.error().message, testing::HasSubstr("version 7"));
}

TEST(VtraceVersions, OtherFilesAreNoVtrace) {
  EXPECT_FALSE(is_vtrace("\x80\x04\x95 pickle"));
  EXPECT_FALSE(is_vtrace(""));
  const std::string_view text = "not a trace at all, but long enough to be one";
  const auto trace = read_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kBadInput);
}

// The first version's file must be read by every later version.
TEST(VtraceVersions, TheFirstVersionsFileIsStillRead) {
  const std::string path = data_path("vtrace/sample.v1.vtrace");
  const auto trace = open_trace(path);
  ASSERT_TRUE(trace) << trace.error().message;
  expect_same_trace(sample_trace(), *trace);
}

// Files made by hand, with frames no writer of ours would write.
class Forgery {
 public:
  Forgery() {
    append(encode_file_header({}));
    MetaEncoder meta;
    meta.put_device(DeviceKind::kGpu, 0);
    put({.type = FrameType::kMeta}, meta.content());
  }
  void put(FrameHeader header, std::span<const uint8_t> content) {
    PodVector<uint8_t> payload;
    EXPECT_TRUE(Compressor(3).compress(std::span(&content, 1), payload));
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    if (header.content_bytes == 0) header.content_bytes = static_cast<uint32_t>(content.size());
    append(encode_frame_header(header));
    append(payload.span());
  }
  void append(std::span<const uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // The trace of what was readable, which must not include the last frame.
  Trace read_refusing_last() const {
    Trace trace = read_bytes(bytes_).value();
    EXPECT_LT(trace.origin.truncated_at_byte.value(), bytes_.size());
    return trace;
  }
  [[nodiscard]] const FileBytes& bytes() const { return bytes_; }

 private:
  FileBytes bytes_;
};

PodVector<uint8_t> varints(std::initializer_list<uint64_t> values) {
  PodVector<uint8_t> out;
  for (const uint64_t value : values) put_varint(out, value);
  return out;
}

TEST(VtraceHostile, LengthsPastTheLimitsAllocateNothing) {
  Forgery file;
  FrameHeader header{.type = FrameType::kEvents, .content_bytes = ~uint32_t{0}, .item_count = 1};
  file.put(header, varints({1}).span());
  EXPECT_TRUE(file.read_refusing_last().events.empty());

  Forgery many;
  header = {.type = FrameType::kEvents, .item_count = kMaxFrameEvents + 1};
  many.put(header, varints({1}).span());
  EXPECT_TRUE(many.read_refusing_last().events.empty());
}

TEST(VtraceHostile, IdsAndNumbersThatNameNothingAreRefused) {
  // head: unit, shift, 11 column lengths; then the columns of one event.
  const auto refuses = [](std::initializer_list<uint64_t> content) {
    Forgery file;
    file.put({.type = FrameType::kEvents, .item_count = 1}, varints(content).span());
    return file.read_refusing_last().events.empty();
  };
  EXPECT_TRUE(refuses({1, 0, /*lengths*/ 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, /*op*/ 0x12, 0, 1}));
  EXPECT_TRUE(refuses({1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, /*op*/ 1, 0, /*address*/ 5, 0, 8}));
  EXPECT_TRUE(refuses({1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, /*op*/ 0x7f, 0, 0, 2, 0, 8, 9, 0}));
  EXPECT_TRUE(refuses({0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 8}));   // unit 0
  EXPECT_TRUE(refuses({1, 64, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 8}));  // shift
  EXPECT_TRUE(refuses({1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 12, 0, 0, 2, 0, 8}));  // kind 12
  EXPECT_TRUE(refuses({1, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}));
  Forgery good;
  good.put({.type = FrameType::kEvents, .item_count = 1},
           varints({1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 8}).span());
  const auto trace = read_bytes(good.bytes());
  ASSERT_TRUE(trace && trace->events.size() == 1);  // what the cases above differ from in one place
  EXPECT_EQ(trace->events[0], sample_event(EventKind::kAlloc, 1, 8, 0));
}

TEST(VtraceHostile, TablesThatRepeatOrSkipIdsAreRefused) {
  const auto refuses = [](std::initializer_list<uint64_t> content) {
    Forgery file;
    file.put({.type = FrameType::kTables}, varints(content).span());
    return file.read_refusing_last().tables.strings.size();
  };
  EXPECT_EQ(refuses({1, 2, 1, 'a', 1, 'a', 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}), 2u);  // "a" twice
  EXPECT_EQ(refuses({2, 1, 1, 'a', 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}), 1u);          // 1 skipped
  EXPECT_EQ(refuses({1, 0, 1, 1, 7, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0}), 1u);   // string 7
}

TEST(VtraceHostile, EventsOfUnknownDevicesOrFromElsewhereAreRefused) {
  const auto content = varints({1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 8});
  Forgery unknown;
  unknown.put({.type = FrameType::kEvents, .device = 1, .item_count = 1}, content.span());
  EXPECT_TRUE(unknown.read_refusing_last().events.empty());
  Forgery gap;
  gap.put({.type = FrameType::kEvents, .item_count = 1, .first_event = 5}, content.span());
  EXPECT_TRUE(gap.read_refusing_last().events.empty());
}

TEST(VtraceHostile, StatesWhoseBlocksAreMissingAreRefused) {
  Forgery file;
  // one segment (its block count 3), no blocks
  file.put({.type = FrameType::kState, .item_count = 1},
           varints({3, 1, 0, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0}).span());
  EXPECT_TRUE(file.read_refusing_last().devices.empty());
}

TEST(VtraceHostile, UnknownFramesAreSteppedOverOnlyIfTheyMay) {
  const auto type = static_cast<FrameType>(77);
  Forgery file;
  file.put({.type = type, .flags = kFrameSkippable}, varints({1}).span());
  const size_t before = file.bytes().size();
  file.put({.type = type}, varints({1}).span());
  EXPECT_EQ(file.read_refusing_last().origin.truncated_at_byte, before);
}

TEST(VtraceHostile, BombsAreRefused) {
  const FileBytes bytes = recording().sink.bytes();
  const auto trace = read_bytes(bytes, {.max_decompressed_bytes = 1000, .progress = nullptr});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace vram::trace
