// Every version of the format, as each protocol writes it, against what Python says the file holds.
#include "trace/import/torch_snapshot.hpp"

#include "base/testing/paths.hpp"
#include "trace/testing/import_bytes.hpp"
#include "trace/testing/trace_equality.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

namespace vram::trace {
namespace {

struct Fixture {
  std::string version;
  std::string writer;  // p2 … p5, ts
};

std::string file_of(const Fixture& f) {
  return "snapshots/" + f.version + "." + f.writer + ".pickle";
}

std::vector<Fixture> fixtures() {
  std::vector<Fixture> all;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("snapshots"))) {
    const std::string stem = entry.path().stem().string();
    const size_t dot = stem.rfind('.');
    all.push_back({stem.substr(0, dot), stem.substr(dot + 1)});
  }
  return all;
}

class VersionTest : public testing::TestWithParam<Fixture> {};

TEST_P(VersionTest, SaysWhatPythonSays) {
  const Result<Trace> trace = import_bytes(test_file(file_of(GetParam())));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace_text(*trace), test_file("snapshot_texts/" + GetParam().version + ".txt"));
  EXPECT_FALSE(trace->origin.truncated_at_byte);
  for (const DeviceTrace& device : trace->devices) EXPECT_TRUE(device.has_end_state);
}

TEST_P(VersionTest, IsTheSameInEveryProtocol) {
  const Result<Trace> trace = import_bytes(test_file(file_of(GetParam())));
  const Result<Trace> other = import_bytes(test_file(file_of({GetParam().version, "p4"})));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_TRUE(other) << other.error().message;
  // C++ writes texts as it meets them, so ids differ there; trace_text has compared the content.
  if (GetParam().writer != "ts") expect_same_trace(*trace, *other);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, VersionTest, testing::ValuesIn(fixtures()),
                         [](const testing::TestParamInfo<Fixture>& fixture) {
                           std::string name = fixture.param.version + "_" + fixture.param.writer;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

Trace imported(const std::string& version) {
  return import_bytes(test_file(file_of({version, "p4"}))).value();
}

std::map<std::string, uint64_t> notes_of(const Trace& trace) {
  std::map<std::string, uint64_t> notes;
  for (const Note& note : trace.origin.notes) notes[note.text] = note.count;
  return notes;
}

TEST(TorchSnapshotTest, AllFixturesAreThere) { EXPECT_EQ(fixtures().size(), 12 * 4 + 5U); }

TEST(TorchSnapshotTest, SaysWhatItDoesNotKnowOnce) {
  const auto notes = notes_of(imported("main"));
  EXPECT_EQ(notes, (std::map<std::string, uint64_t>{
                       {"unknown key 'brand_new_key' in an entry", 1},
                       {"unknown key 'invented_later' in the snapshot", 1},
                       {"unknown action 'workspace_snapshot' in an entry", 1}}));
  EXPECT_TRUE(notes_of(imported("v2.12")).empty());
  EXPECT_TRUE(notes_of(imported("v1.13")).empty());
}

TEST(TorchSnapshotTest, KnowsWhatWasRecorded) {
  const Trace old = imported("v1.13");
  EXPECT_FALSE(old.has_time);
  EXPECT_TRUE(old.has_stacks);
  EXPECT_FALSE(old.has_pools);
  const Trace now = imported("v2.12");
  EXPECT_TRUE(now.has_time);
  EXPECT_TRUE(now.has_pools);
  EXPECT_EQ(now.origin.format, "PyTorch snapshot (pickle protocol 4)");
}

TEST(TorchSnapshotTest, SharesStacksOfEqualContent) {
  const Trace trace = imported("v2.8");
  EXPECT_LE(trace.tables.stacks.size(), 6U);
}

TEST(TorchSnapshotTest, RingIsFullAtItsLimitToo) {
  const Trace trace = imported("main");  // entries == trace_alloc_max_entries
  EXPECT_TRUE(trace.devices[0].ring_overflowed);
  EXPECT_FALSE(trace.devices[1].ring_overflowed);  // host memory has a ring of its own
}

// The demo recordings are real: counts and sums, as Python's unpickler gives them.
std::string demo_text(const std::string& name, const Trace& trace) {
  std::map<std::string, uint64_t> sums;
  std::map<std::string, std::pair<uint64_t, uint64_t>> actions;
  uint64_t addresses = 0, times = 0, frames = 0, lines = 0;
  for (const Event& event : trace.events.span()) {
    addresses += event.address;
    times += static_cast<uint64_t>(event.time_ns / 1000);
    for (const FrameId frame : trace.tables.stacks[event.stack]) {
      ++frames;
      lines += trace.tables.frames[frame].line;
    }
    auto& [count, bytes] = actions[std::string(to_string(event.kind))];
    ++count;
    bytes += event.size_bytes;
  }
  const DeviceTrace& device = trace.devices.at(0);
  uint64_t segment_bytes = 0, block_bytes = 0, requested = 0, allocated = 0;
  for (const Segment& segment : device.segments) segment_bytes += segment.size_bytes;
  for (const Block& block : device.blocks.span()) {
    block_bytes += block.size_bytes;
    requested += block.requested_bytes;
    allocated += block.state == BlockState::kAllocated ? 1 : 0;
  }
  std::string text = fmt::format(
      "{}\n  addresses={}\n  times_us={}\n  frames={}\n  lines={}\n  segments={}\n"
      "  segment_bytes={}\n  blocks={}\n  block_bytes={}\n  requested_bytes={}\n"
      "  allocated_blocks={}\n  annotations={}\n",
      name, addresses, times, frames, lines, device.segments.size(), segment_bytes,
      device.blocks.size(), block_bytes, requested, allocated, trace.annotations.size());
  for (const auto& [action, sum] : actions) {
    text += fmt::format("  {}={}\n  {}.bytes={}\n", action, sum.first, action, sum.second);
  }
  return text;
}

TEST(TorchSnapshotTest, ReadsTheDemoRecordingsAsPythonDoes) {
  const std::filesystem::path demo = source_path("demo");
  std::string text;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(demo)) {
    if (entry.path().extension() == ".xz") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const Result<Trace> trace = open_trace(file.string());
    ASSERT_TRUE(trace) << trace.error().message;
    text += demo_text(file.filename().string(), *trace);
  }
  EXPECT_EQ(text, test_file("snapshot_texts/demo.txt"));
}

}  // namespace
}  // namespace vram::trace
