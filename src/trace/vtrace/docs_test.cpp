// The example of docs/vtrace.md is the file it says it is.
#include "base/testing/paths.hpp"
#include "trace/testing/memory_sink.hpp"
#include "trace/testing/sample_trace.hpp"
#include "trace/vtrace/frames.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace vram::trace {
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
}  // namespace vram::trace
