// What is written is read as the same recording; PyTorch's own programs read it in
// tests/python/test_pytorch_snapshots.py.
#include "explain/testing/caching_allocator.hpp"
#include "exports/exports.hpp"
#include "exports/testing/decoded.hpp"
#include "trace/testing/import_bytes.hpp"
#include "trace/testing/random_trace.hpp"
#include "trace/testing/sample_trace.hpp"
#include "trace/testing/synthetic_trace.hpp"
#include "trace/testing/trace_equality.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

namespace vram::exports {
namespace {

using namespace trace;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string written(const Trace& trace) {
  const std::string path = ::testing::TempDir() + "snapshot_test." + std::to_string(getpid());
  const auto done = write_torch_snapshot(trace, path, Replace::kOwn);
  EXPECT_TRUE(done) << done.error().message;
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::remove(path.c_str());
  return bytes;
}

Trace reread(const Trace& trace) {
  auto again = import_bytes(written(trace));
  EXPECT_TRUE(again) << again.error().message;
  return again ? std::move(*again) : Trace();
}

// Of all events.
void add_device(Trace& trace, DeviceKind kind = DeviceKind::kGpu, uint32_t ordinal = 0) {
  DeviceTrace& device = trace.devices.emplace_back();
  device.kind = kind;
  device.ordinal = ordinal;
  device.event_count = trace.events.size();
}

std::string about_text(const Trace& trace) {
  std::string text;
  for (const Setting& about : trace.about) text += about.key + "=" + about.value + "\n";
  return text;
}

std::string samples_text(const Trace& trace) {
  const StringTable& texts = trace.tables.strings;
  std::string text;
  for (const Figure& f : trace.figures)
    text += fmt::format("{} {} {} {}\n", texts[f.name], f.device, f.time_ns, f.value);
  for (const Mark& m : trace.marks)
    text += fmt::format("{} {} {} {} {} {} {}\n", texts[m.name], texts[m.group], m.device,
                        m.time_ns, m.duration_ns, m.size_bytes, to_string(m.kind));
  return text;
}

// Everything that a snapshot of vram has.
void expect_same(const Trace& before, const Trace& after) {
  EXPECT_EQ(trace_text(after), trace_text(before));
  EXPECT_EQ(about_text(after), about_text(before));
  EXPECT_EQ(samples_text(after), samples_text(before));
  EXPECT_EQ(after.has_time, before.has_time);
  EXPECT_EQ(after.has_pools, before.has_pools);
  EXPECT_EQ(after.origin.truncated_at_byte, before.origin.truncated_at_byte);
  ASSERT_EQ(after.devices.size(), before.devices.size());
  for (size_t i = 0; i < after.devices.size(); ++i)
    EXPECT_EQ(after.devices[i].has_end_state, before.devices[i].has_end_state);
}

// Recordings

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("snapshots"))) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".p4.pickle")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

class FixtureTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FixtureTest, IsTheSameSnapshotAgain) {
  const Trace before = import_bytes(test_file("snapshots/" + GetParam())).value();
  const Trace after = reread(before);
  expect_same(before, after);
  EXPECT_EQ(after.has_stacks, before.has_stacks);
  EXPECT_EQ(after.origin.format,
            "PyTorch snapshot (pickle protocol 4), from PyTorch snapshot (pickle protocol 4)");
  EXPECT_EQ(written(after), written(reread(after)));
}

INSTANTIATE_TEST_SUITE_P(Versions, FixtureTest, ::testing::ValuesIn(fixtures()),
                         [](const auto& fixture) {
                           std::string name = fixture.param;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

// Its stacks are lists of texts, and those of the sample have lines.
std::string without_forward(std::string event) {
  const size_t begin = event.find(" forward=");
  return event.erase(begin, event.find(" stack=", begin) - begin);
}

TEST(SnapshotTest, KeepsWhatOnlyVramRecords) {
  Trace before = sample_trace();
  before.annotations[2].time_ns = 1'795'248'641'678'827'999;
  const Trace after = reread(before);
  EXPECT_EQ(about_text(after), about_text(before));
  EXPECT_EQ(after.origin.truncated_at_byte, before.origin.truncated_at_byte);
  for (const Note& note : before.origin.notes) {
    const auto is_same = [&](const Note& other) {
      return other.text == note.text && other.count == note.count;
    };
    EXPECT_TRUE(std::ranges::any_of(after.origin.notes, is_same)) << note.text;
  }
  ASSERT_EQ(after.events.size(), before.events.size());
  for (size_t i = 0; i < before.events.size(); ++i) {
    if (before.events[i].time_ns < 0) continue;
    EXPECT_EQ(without_forward(event_text(after.tables, after.events[i])),
              without_forward(event_text(before.tables, before.events[i])));
  }
  ASSERT_EQ(after.annotations.size(), before.annotations.size());
  for (size_t i = 0; i < before.annotations.size(); ++i) {
    EXPECT_EQ(after.annotations[i].time_ns, before.annotations[i].time_ns);
    EXPECT_EQ(after.annotations[i].device, before.annotations[i].device);
  }
  // Of a truncated recording, the state at the end is none of its last event.
  for (const DeviceTrace& device : after.devices) EXPECT_FALSE(device.has_end_state);
}

TEST(SnapshotTest, AnEmptyRecordingIsAnEmptySnapshot) {
  const Trace after = reread(Trace());
  EXPECT_TRUE(after.devices.empty());
  EXPECT_TRUE(after.origin.notes.empty());
}

TEST(SnapshotTest, RefusesDeviceNumbersThatWouldNeedMillionsOfLists) {
  Trace trace;
  trace.events.push_back(sample_event(EventKind::kSnapshot, 0, 0, 0));
  add_device(trace, DeviceKind::kGpu, 4'000'000'000);
  const auto done = write_torch_snapshot(trace, "/dev/null", Replace::kOwn);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("below 4096, found 4000000000"));
}

// The tree of a snapshot, as any program reads it.
std::string tree_of(const Trace& trace) { return decoded(written(trace)); }

TEST(SnapshotTest, BlocksFillTheirSegment) {
  Trace trace;
  DeviceTrace& device = trace.devices.emplace_back();
  device.has_end_state = true;
  device.segments.push_back({.address = 4096, .size_bytes = 4096, .block_count = 2});
  device.segments.push_back({.address = 16384, .size_bytes = 512, .first_block = 2});
  device.blocks.push_back({.address = 4608,
                           .size_bytes = 512,
                           .requested_bytes = 500,
                           .state = BlockState::kAllocated});
  device.blocks.push_back({.address = 6144,
                           .size_bytes = 1024,
                           .requested_bytes = 1000,
                           .state = BlockState::kPendingFree});
  std::vector<std::string> blocks;
  const Trace after = reread(trace);
  for (const Block& block : after.devices[0].blocks.span())
    blocks.push_back(
        fmt::format("{} {} {:d}", block.address, block.size_bytes, static_cast<int>(block.state)));
  EXPECT_THAT(blocks, ElementsAre("4096 512 0", "4608 512 1", "5120 1024 0", "6144 1024 2",
                                  "7168 1024 0", "16384 512 0"));
}

TEST(SnapshotTest, WithoutAnEndStateItIsTheReplays) {
  Trace trace;
  trace.tables.stacks.intern(std::vector<FrameId>{
      trace.tables.frames.intern({.function = trace.tables.strings.intern("grow"), .line = 3})});
  trace.has_stacks = true;
  const auto add = [&](EventKind kind, uint64_t address, uint64_t bytes) {
    trace.events.push_back(sample_event(kind, address, bytes, 0));
  };
  add(EventKind::kSegmentAlloc, 0x7000'0000, 2 << 20);
  trace.events[0].stack = 1;
  add(EventKind::kAlloc, 0x7000'0000, 1000);
  add(EventKind::kAlloc, 0x7000'0400, 700);
  add(EventKind::kFreeRequested, 0x7000'0000, 1000);
  add(EventKind::kFreeCompleted, 0x7000'0000, 1000);
  add(EventKind::kAlloc, 0x7000'0000, 512);
  add(EventKind::kFreeRequested, 0x7000'0000, 512);
  add_device(trace);
  const std::string tree = tree_of(trace);
  EXPECT_THAT(
      tree,
      HasSubstr(
          "'segments': [{'device': 0, 'address': 1879048192, 'total_size': 2097152, "
          "'allocated_size': 1024, 'active_size': 1536, 'requested_size': 1212, 'stream': 0, "
          "'segment_type': 'small', 'segment_pool_id': (0, 0), 'is_expandable': False, 'frames': "
          "[{'name': 'grow', 'filename': '', 'line': 3}], 'blocks': ["
          "{'address': 1879048192, 'size': 512, 'requested_size': 512, 'state': "
          "'active_pending_free', 'frames': []}, "
          "{'address': 1879048704, 'size': 512, 'requested_size': 0, 'state': 'inactive', "
          "'frames': []}, "
          "{'address': 1879049216, 'size': 1024, 'requested_size': 700, 'state': "
          "'active_allocated', 'frames': []}, "
          "{'address': 1879050240, 'size': 2095104, 'requested_size': 0, 'state': 'inactive', "
          "'frames': []}]}]"));
  expect_same(trace, reread(trace));
}

TEST(SnapshotTest, MemoryOfTheHostAloneIsInTheListsThatViewersShow) {
  Trace trace;
  trace.events.push_back(sample_event(EventKind::kAlloc, 4096, 512, 0));
  add_device(trace, DeviceKind::kHost);
  const std::string tree = tree_of(trace);
  EXPECT_THAT(tree, HasSubstr("'device_traces': [[{'action': 'alloc', 'addr': 4096"));
  EXPECT_EQ(tree.find("host_traces"), tree.npos);
  expect_same(trace, reread(trace));
}

TEST(SnapshotTest, CategoriesOfBlocksAreForViewersAlone) {
  Trace trace;
  Tables& tables = trace.tables;
  const ContextId named = tables.contexts.intern({.user_metadata = tables.strings.intern("weight"),
                                                  .category = tables.strings.intern("parameter")});
  for (const uint64_t address : {4096, 8192})
    trace.events.push_back(sample_event(EventKind::kAlloc, address, 512, 0));
  trace.events.push_back(sample_event(EventKind::kAnnotate, 4096, 512, 0));
  trace.events[2].context = named;
  add_device(trace);
  const std::string tree = tree_of(trace);
  EXPECT_THAT(tree, HasSubstr("'addr': 4096, 'size': 512, 'stream': 0, 'compile_context': 'N/A', "
                              "'user_metadata': '', 'category': 'parameter'}"));
  EXPECT_THAT(tree, HasSubstr("'addr': 8192, 'size': 512, 'stream': 0, 'compile_context': 'N/A', "
                              "'user_metadata': '', 'category': 'unknown'}"));
  EXPECT_THAT(tree, HasSubstr("'user_metadata': 'weight', 'vram_category': 'parameter'}"));
  expect_same(trace, reread(trace));
}

// The viewer fails if there are categories and "unknown" is none of them.
TEST(SnapshotTest, AnEntryIsOfNoCategoryIfAllBlocksHaveOne) {
  Trace trace;
  Tables& tables = trace.tables;
  const ContextId context =
      tables.contexts.intern({.category = tables.strings.intern("activation")});
  trace.events.push_back(sample_event(EventKind::kAlloc, 4096, 512, 0));
  trace.events[0].context = context;
  add_device(trace);
  EXPECT_EQ(tree_of(trace).find("'category'"), std::string::npos);
  for (const EventKind kind : {EventKind::kFreeRequested, EventKind::kFreeCompleted})
    trace.events.push_back(sample_event(kind, 4096, 512, 0));
  trace.devices[0].event_count = 3;
  const std::string tree = tree_of(trace);
  EXPECT_THAT(tree, HasSubstr("'category': 'activation', 'vram_category': 'activation'}, "
                              "{'action': 'free_requested', 'addr': 4096, 'size': 512, 'stream': "
                              "0, 'compile_context': 'N/A', 'user_metadata': '', 'category': "
                              "'unknown'}, {'action': 'free_completed', 'addr': 4096, 'size': 512, "
                              "'stream': 0, 'compile_context': 'N/A', 'user_metadata': ''}"));
  expect_same(trace, reread(trace));
}

TEST(SnapshotTest, TextsAndStacksAreWrittenOnce) {
  const Trace trace =
      synthetic_trace({.events = 20'000, .devices = 2, .with_stacks = true, .with_pools = true});
  const std::string bytes = written(trace);
  expect_same(trace, import_bytes(bytes).value());
  // An entry has 60 or so, of which its address, its time and its stack are 25.
  EXPECT_LT(bytes.size() / trace.events.size(), 80U);
}

// Random recordings

TEST(SnapshotTest, ARandomRecordingIsReadAsItWas) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Trace before = RandomTrace(seed).make();
    expect_same(before, reread(before));
    if (HasFailure()) return;
  }
}

// The replayed end of a random program is the allocator's own.
TEST(SnapshotTest, ReplayedSegmentsAreTheAllocators) {
  for (const bool is_expandable : {false, true}) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937 random(seed);
      Trace trace;
      explain::testing::CachingAllocator allocator(explain::AllocatorRules(), is_expandable);
      allocator.record_into(&trace);
      std::vector<uint64_t> blocks;
      std::vector<uint64_t> awaited;
      for (unsigned i = 0; i < 400; ++i) {
        if (blocks.empty() || random() % 5 < 3) {
          blocks.push_back(allocator.allocate(1 + random() % (random() % 2 == 0 ? 2000 : 30 << 20),
                                              static_cast<StreamId>(random() % 2)));
          continue;
        }
        std::swap(blocks[random() % blocks.size()], blocks.back());
        const bool waits = random() % 8 == 0;
        allocator.free(blocks.back(), waits);
        if (waits) awaited.push_back(blocks.back());
        blocks.pop_back();
        if (awaited.size() > 3) {
          allocator.complete(awaited.front());
          awaited.erase(awaited.begin());
        }
        if (random() % 50 == 0) allocator.empty_cache();
      }
      trace.tables.streams.intern(7);
      add_device(trace);
      const std::string replayed = tree_of(trace);
      allocator.write_end_state(trace.devices[0]);
      const std::string recorded = tree_of(trace);
      const auto segments = [](const std::string& tree) {
        const size_t begin = tree.find("'segments'");
        return tree.substr(begin, tree.find("'device_traces'") - begin);
      };
      // Sizes of free blocks are stale there.
      EXPECT_GT(segments(replayed).size(), 100U);
      const auto without_stale = [](std::string text) {
        for (size_t at = 0; (at = text.find("'requested_size': ", at)) != text.npos; ++at) {
          const size_t number = at + std::string_view("'requested_size': ").size();
          const size_t end = text.find(',', number);
          if (text.substr(end).starts_with(", 'state': 'inactive'"))
            text.replace(number, end - number, "?");
        }
        return text;
      };
      EXPECT_EQ(without_stale(segments(replayed)), without_stale(segments(recorded)));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace vram::exports
