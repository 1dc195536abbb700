#include "replay/recorded_limit.hpp"

#include "base/bytes.hpp"
#include "replay/run.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace vram::replay {
namespace {

using trace::EventKind;

constexpr uint64_t kLimit = 1000 * kMiB;

// Large tensors of changing sizes, some of which stay: segments grow old in the cache.
Program aging_program() {
  std::mt19937_64 random(4);
  ProgramBuilder p;
  for (int step = 0; step < 30; ++step) {
    std::vector<uint32_t> live;
    for (int i = 0; i < 12; ++i) live.push_back(p.alloc((11 + random() % 40) * kMiB));
    for (const uint32_t block : live) p.free(block);
  }
  return p.build();
}

std::vector<DriverCall> calls_at(const Program& program, const AllocatorSpec& spec,
                                 uint64_t capacity_bytes) {
  std::vector<DriverCall> log;
  static_cast<void>(
      run(program, *find_peer("torch"), spec, {.capacity_bytes = capacity_bytes}, &log));
  return log;
}

// What LimitScan would say of the calls: what was reserved where memory was taken, by whether
// something had been given back for it.
LimitBounds bounds_of(const std::vector<DriverCall>& calls) {
  LimitBounds bounds;
  std::vector<uint64_t> kept;
  uint64_t reserved = 0;
  uint64_t before = 0;
  for (const DriverCall& call : calls) {
    if (call.kind == DriverCall::Kind::kFree) {
      before = before == 0 ? reserved : before;
      reserved -= call.size_bytes;
      continue;
    }
    if (before == 0) {
      kept.push_back(reserved);
    } else {
      bounds.smallest_collected_bytes =
          std::min(bounds.smallest_collected_bytes.value_or(before), before);
    }
    before = 0;
    reserved += call.size_bytes;
    bounds.fraction.largest_granted_bytes =
        std::max(bounds.fraction.largest_granted_bytes, reserved);
  }
  for (const uint64_t bytes : kept) {
    if (bounds.smallest_collected_bytes && bytes < *bounds.smallest_collected_bytes)
      bounds.largest_kept_bytes = std::max(bounds.largest_kept_bytes, bytes);
  }
  return bounds;
}

TEST(RecordedLimit, IsFoundFromWhatGarbageCollectionGaveBack) {
  const AllocatorSpec spec = parse_spec("torch:garbage_collection_threshold=0.6").value();
  Program program = aging_program();
  program.recorded_calls = calls_at(program, spec, kLimit);
  program.limit_bounds = bounds_of(program.recorded_calls);
  ASSERT_TRUE(program.limit_bounds.smallest_collected_bytes) << "nothing was collected";
  EXPECT_FALSE(recorded_limit(program)) << "nothing was refused";
  const auto limit = settle_recorded(program, spec);
  ASSERT_TRUE(limit);
  // Not the same number: another limit may collect the same. The calls are what counts.
  EXPECT_NEAR(static_cast<double>(limit->bytes), static_cast<double>(kLimit), 0.05 * kLimit);
  EXPECT_TRUE(limit->is_fraction) << "only that lets garbage collection act";
  const auto replayed = calls_at(program, spec, limit->bytes);
  ASSERT_EQ(replayed.size(), program.recorded_calls.size());
  for (size_t i = 0; i < replayed.size(); ++i)
    EXPECT_EQ(replayed[i].size_bytes, program.recorded_calls[i].size_bytes) << i;
}

// A program as recordings show it: memory went back before a request, and they do not say why.
Program as_recorded(const Program& program, const AllocatorSpec& spec, uint64_t capacity_bytes) {
  Program recorded;
  recorded.block_count = program.block_count;
  recorded.stream_count = program.stream_count;
  recorded.stream_handles = program.stream_handles;
  recorded.recorded_calls = calls_at(program, spec, capacity_bytes);
  uint64_t reserved = 0;
  size_t next = 0;
  for (const Op& op : program.ops) {
    const auto& calls = recorded.recorded_calls;
    const uint64_t before = reserved;
    const bool gives_back = next < calls.size() && calls[next].event == op.event &&
                            calls[next].kind == DriverCall::Kind::kFree;
    for (; next < calls.size() && calls[next].event == op.event; ++next) {
      const bool takes = calls[next].kind == DriverCall::Kind::kAlloc;
      reserved += takes ? calls[next].size_bytes : -calls[next].size_bytes;
    }
    for (Bounds* bounds : {&recorded.limit_bounds.fraction, &recorded.limit_bounds.device})
      bounds->largest_granted_bytes = std::max(bounds->largest_granted_bytes, reserved);
    if (gives_back) {
      recorded.given_back.push_back({.op = static_cast<uint32_t>(recorded.ops.size()),
                                     .event = op.event,
                                     .fraction_bytes = before + std::max(op.size_bytes, kMiB),
                                     .device_bytes = before + std::max(op.size_bytes, kMiB)});
      recorded.ops.push_back(op);
      recorded.ops[recorded.ops.size() - 1].kind = OpKind::kGivenBack;
    }
    if (op.kind != OpKind::kEmptyCache) recorded.ops.push_back(op);
  }
  return recorded;
}

void expect_all(const Program& program, OpKind kind) {
  for (const GivenBack& each : program.given_back)
    EXPECT_EQ(program.ops[each.op].kind, kind) << each.event;
}

TEST(RecordedLimit, CachesThatTheProgramEmptiedAreToldFromALimit) {
  const AllocatorSpec spec = parse_spec("torch").value();
  std::mt19937_64 random(9);
  ProgramBuilder p;
  for (int step = 0; step < 12; ++step) {
    std::vector<uint32_t> live;
    for (int i = 0; i < 8; ++i) live.push_back(p.alloc((11 + random() % 40) * kMiB));
    for (const uint32_t block : live) p.free(block);
    if (step % 3 == 2) p.empty_cache();
  }
  Program program = as_recorded(p.build(), spec, uint64_t{1} << 40);
  ASSERT_EQ(program.given_back.size(), 4u);
  EXPECT_FALSE(settle_recorded(program, spec)) << "no limit was met";
  expect_all(program, OpKind::kEmptyCache);
  EXPECT_EQ(calls_at(program, spec, uint64_t{1} << 40).size(), program.recorded_calls.size());
}

TEST(RecordedLimit, WhatALimitExplainsStaysTheAllocatorsOwn) {
  const AllocatorSpec spec = parse_spec("torch").value();
  constexpr uint64_t kTight = 600 * kMiB;
  Program program = as_recorded(aging_program(), spec, kTight);
  ASSERT_FALSE(program.given_back.empty()) << "no retry";
  const auto limit = settle_recorded(program, spec);
  ASSERT_TRUE(limit);
  EXPECT_NEAR(static_cast<double>(limit->bytes), static_cast<double>(kTight), 60.0 * kMiB);
  expect_all(program, OpKind::kGivenBack);
}

TEST(RecordedLimit, WithoutGarbageCollectionRefusalsAloneCount) {
  Program program = aging_program();
  program.limit_bounds.smallest_collected_bytes = 500 * kMiB;
  const AllocatorSpec spec = parse_spec("torch").value();
  EXPECT_FALSE(settle_recorded(program, spec));
  program.limit_bounds.fraction.smallest_refused_bytes = 600 * kMiB;
  program.limit_bounds.device.smallest_refused_bytes = 600 * kMiB;
  EXPECT_EQ(settle_recorded(program, spec), (RecordedLimit{598 * kMiB, false}));
}

// A recording of segments, each with one block of its size.
class LimitedRecording {
 public:
  void take(EventKind segment, uint64_t address, uint64_t segment_bytes, uint64_t bytes,
            trace::StreamId stream = 0) {
    add(segment, address, segment_bytes, stream);
    add(EventKind::kAlloc, address, bytes, stream);
  }
  void add(EventKind kind, uint64_t address, uint64_t bytes, trace::StreamId stream = 0) {
    trace::Event event;
    event.kind = kind;
    event.address = address;
    event.size_bytes = bytes;
    event.stream = stream;
    trace_.events.push_back(event);
  }
  void free(uint64_t address, uint64_t bytes) {
    add(EventKind::kFreeRequested, address, bytes);
    add(EventKind::kFreeCompleted, address, bytes);
  }
  void oom(uint64_t bytes, uint64_t device_free_bytes) {
    add(EventKind::kOom, device_free_bytes, bytes);
  }
  LimitedRecording() {
    for (const uint64_t handle : {0, 4096}) trace_.tables.streams.intern(handle);
  }
  void expandable() { trace_.settings.push_back({"expandable_segments", "True"}); }
  std::optional<RecordedLimit> limit() {
    const Program program = make();
    return recorded_limit(program);
  }
  std::optional<RecordedLimit> settled() {
    Program program = make();
    return settle_recorded(program, recorded_spec(trace_));
  }
  ReplayResult replayed() {
    Program program = make();
    const auto limit = settle_recorded(program, recorded_spec(trace_));
    ReplayOptions options;
    if (limit) options.capacity_bytes = limit->bytes;
    options.capacity_is_fraction = limit && limit->is_fraction;
    return replay(program, recorded_spec(trace_), options).value();
  }

 private:
  Program make() {
    trace::DeviceTrace device;
    device.event_count = trace_.events.size();
    return make_program(trace_, device);
  }
  trace::Trace trace_;
};

constexpr uint64_t kFar = uint64_t{1} << 40;

TEST(RecordedLimit, IsNoLargerThanWhatTheDeviceHadLeft) {
  LimitedRecording r;
  r.take(EventKind::kSegmentAlloc, kFar, 78'420 * kMiB, 78'420 * kMiB);
  r.oom(3'700 * kMiB, 90 * kMiB);
  EXPECT_EQ(r.limit(), (RecordedLimit{78'510 * kMiB, false}));
  LimitedRecording much;
  much.take(EventKind::kSegmentAlloc, kFar, 10 * kGiB, 10 * kGiB);
  much.oom(60 * kGiB, 13 * kGiB);
  EXPECT_EQ(much.limit(), (RecordedLimit{23 * kGiB, false}));
}

TEST(RecordedLimit, IsAMemoryFractionWhereTheDeviceHadRoom) {
  LimitedRecording r;
  r.take(EventKind::kSegmentAlloc, kFar, 10 * kGiB, 10 * kGiB);
  r.oom(2 * kGiB, 100 * kGiB);
  EXPECT_EQ(r.limit(), (RecordedLimit{12 * kGiB - 2 * kMiB, true}));
  r.oom(60 * kGiB, kGiB);  // later others had filled the device
  EXPECT_EQ(r.limit(), (RecordedLimit{11 * kGiB, true}));
}

// 9 GiB grow to 10 on a device of 11.9: what a memory fraction would have been compared with, 19,
// was never granted.
TEST(RecordedLimit, OfExpandableSegmentsCountsWhatIsMapped) {
  LimitedRecording r;
  r.expandable();
  r.take(EventKind::kSegmentMap, kFar, 9220 * kMiB, 9 * kGiB);
  r.free(kFar, 9 * kGiB);
  r.take(EventKind::kSegmentMap, kFar + 9220 * kMiB, 1020 * kMiB, 10 * kGiB);
  r.oom(3 * kGiB, 1946 * kMiB);
  EXPECT_EQ(r.limit(), (RecordedLimit{(10'240 + 1946) * kMiB, false}));
  const ReplayResult result = r.replayed();
  ASSERT_TRUE(result.oom);
  EXPECT_EQ(result.oom->requested_bytes, 3 * kGiB);
  EXPECT_EQ(result.peak_reserved_bytes, 10 * kGiB);
}

// No OOM says what the device had: the replay that follows the recording tells.
TEST(RecordedLimit, ARetryOfExpandableSegmentsIsTheDevicesOrAFractions) {
  LimitedRecording fraction;  // of less than 9000 MiB: the device would have let 4000 grow to 5000
  fraction.expandable();
  fraction.take(EventKind::kSegmentMap, kFar, 4000 * kMiB, 4000 * kMiB);
  fraction.free(kFar, 4000 * kMiB);
  fraction.add(EventKind::kSegmentUnmap, kFar, 4000 * kMiB);
  fraction.take(EventKind::kSegmentMap, kFar, 5000 * kMiB, 5000 * kMiB);
  EXPECT_EQ(fraction.settled(), (RecordedLimit{8998 * kMiB, true}));
  EXPECT_EQ(fraction.replayed().matched_calls, 3u);

  LimitedRecording device;  // a fraction would have refused what was granted
  device.expandable();
  device.take(EventKind::kSegmentMap, kFar, 4000 * kMiB, 4000 * kMiB);
  device.free(kFar, 4000 * kMiB);
  device.take(EventKind::kSegmentMap, kFar + 4000 * kMiB, 1000 * kMiB, 5000 * kMiB);
  device.free(kFar + 4000 * kMiB, 5000 * kMiB);
  device.add(EventKind::kSegmentUnmap, kFar, 5000 * kMiB);
  device.take(EventKind::kSegmentMap, 2 * kFar, 3000 * kMiB, 3000 * kMiB, 1);
  EXPECT_EQ(device.settled(), (RecordedLimit{7998 * kMiB, false}));
  EXPECT_EQ(device.replayed().matched_calls, 4u);
}

}  // namespace
}  // namespace vram::replay
