#include "trace/vtrace/meta.hpp"

#include "base/varint.hpp"
#include "trace/testing/memory_sink.hpp"
#include "trace/testing/synthetic_trace.hpp"
#include "trace/testing/trace_equality.hpp"
#include "trace/vtrace/events.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/tables.hpp"

#include <gtest/gtest.h>

#include <ranges>
#include <utility>
#include <vector>

namespace vram::trace {
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

FileBytes file_with(const Trace& trace) {
  MemorySink sink;
  EXPECT_TRUE(write_vtrace(trace, sink));
  return sink.bytes();
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
  const FileBytes bytes_ = file_with(trace_);
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
