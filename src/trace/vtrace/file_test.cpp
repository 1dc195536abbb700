#include "trace/vtrace/file.hpp"

#include "trace/testing/memory_sink.hpp"
#include "trace/testing/synthetic_trace.hpp"
#include "trace/testing/trace_equality.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vram::trace {
namespace {

// Owns its bytes: the file outlives the test's copy.
class OwnedSource final : public VtraceSource {
 public:
  explicit OwnedSource(FileBytes bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] uint64_t size_bytes() const override { return bytes_.size(); }
  [[nodiscard]] Result<size_t> read_at(uint64_t offset, std::span<uint8_t> buffer) const override {
    return MemorySource(bytes_).read_at(offset, buffer);
  }

 private:
  FileBytes bytes_;
};

const Trace& trace() {
  static const Trace kMade =
      synthetic_trace({.events = 200'000, .devices = 2, .with_stacks = true});
  return kMade;
}

VtraceFile opened(size_t truncated_bytes = 0) {
  MemorySink sink;
  EXPECT_TRUE(write_vtrace(trace(), sink));
  FileBytes bytes = sink.bytes();
  bytes.resize(bytes.size() - truncated_bytes);
  return VtraceFile::open(std::make_unique<OwnedSource>(std::move(bytes))).value();
}

TEST(VtraceFile, ListsTheSameFramesWithAndWithoutItsIndex) {
  const VtraceFile indexed = opened();
  const VtraceFile scanned = opened(1);
  EXPECT_TRUE(indexed.has_index());
  EXPECT_FALSE(scanned.has_index());
  ASSERT_EQ(indexed.frames().size(), scanned.frames().size());
  for (size_t i = 0; i < indexed.frames().size(); ++i) {
    IndexedFrame frame = scanned.frames()[i];
    frame.header.content_bytes = 0;
    EXPECT_EQ(indexed.frames()[i], frame);
  }
  expect_same_tables(indexed.about().tables, trace().tables);
  EXPECT_EQ(scanned.devices().size(), 2u);
}

TEST(VtraceFile, ReadsEveryFrameAlone) {
  VtraceFile file = opened();
  std::vector<IndexedFrame> frames = file.frames();
  std::reverse(frames.begin(), frames.end());  // no frame needs the one before it
  size_t seen = 0;
  for (const IndexedFrame& frame : frames) {
    PodVector<Event> events;
    if (frame.header.type != FrameType::kEvents) {
      EXPECT_FALSE(file.read_events(frame, events));
      continue;
    }
    ASSERT_TRUE(file.read_events(frame, events));
    const auto all = trace().events_of(trace().devices[frame.header.device]);
    expect_same_items(events.span(), all.subspan(frame.header.first_event, events.size()), "event");
    seen += events.size();
  }
  EXPECT_EQ(seen, trace().events.size());
}

TEST(VtraceFile, ReadsOnlyFramesOfTheTimeAsked) {
  VtraceFile file = opened();
  const auto all = trace().events_of(trace().devices[1]);
  const int64_t from = all[100'000].time_ns;
  const int64_t to = all[100'010].time_ns;
  size_t frames = 0;
  size_t inside = 0;
  ASSERT_TRUE(file.read_between(1, from, to, [&](uint64_t first, std::span<const Event> events) {
    ++frames;
    expect_same_items(events, all.subspan(first, events.size()), "event");
    inside += static_cast<size_t>(std::count_if(events.begin(), events.end(), [&](const Event& e) {
      return e.time_ns >= from && e.time_ns < to;
    }));
  }));
  EXPECT_EQ(frames, 1u);
  EXPECT_EQ(inside, static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const Event& e) {
              return e.time_ns >= from && e.time_ns < to;
            })));
  EXPECT_GE(inside, 5u);
}

TEST(VtraceFile, AnIndexThatContradictsTheFileIsNotBelieved) {
  VtraceFile file = opened();
  IndexedFrame frame =
      *std::find_if(file.frames().begin(), file.frames().end(),
                    [](const IndexedFrame& at) { return at.header.type == FrameType::kEvents; });
  PodVector<Event> events;
  frame.header.item_count += 1;
  EXPECT_FALSE(file.read_events(frame, events));
  frame.offset += 1;
  EXPECT_FALSE(file.read_events(frame, events));
}

TEST(VtraceFile, MissingAndForeignFilesAreErrors) {
  EXPECT_EQ(VtraceFile::open("/nowhere/at.vtrace").error().code, Code::kNotFound);
  EXPECT_FALSE(VtraceFile::open(std::make_unique<OwnedSource>(FileBytes(100, 1))));
}

}  // namespace
}  // namespace vram::trace
