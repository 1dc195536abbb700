#include "replay/recorded_limit.hpp"

#include "base/bytes.hpp"
#include "replay/run.hpp"
#include "replay/testing/program_builder.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace vram::replay {
namespace {

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
  ReplayOptions options;
  options.capacity_bytes = capacity_bytes;
  std::vector<DriverCall> log;
  static_cast<void>(run(program, *find_peer("torch"), spec, options, &log));
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
    bounds.largest_granted_bytes = std::max(bounds.largest_granted_bytes, reserved);
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
  EXPECT_NEAR(static_cast<double>(*limit), static_cast<double>(kLimit), 0.05 * kLimit);
  const auto replayed = calls_at(program, spec, *limit);
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
    uint64_t& granted = recorded.limit_bounds.largest_granted_bytes;
    granted = std::max(granted, reserved);
    if (gives_back) {
      recorded.given_back.push_back({.op = static_cast<uint32_t>(recorded.ops.size()),
                                     .event = op.event,
                                     .total_bytes = before + std::max(op.size_bytes, kMiB)});
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
  EXPECT_NEAR(static_cast<double>(*limit), static_cast<double>(kTight), 60.0 * kMiB);
  expect_all(program, OpKind::kGivenBack);
}

TEST(RecordedLimit, WithoutGarbageCollectionRefusalsAloneCount) {
  Program program = aging_program();
  program.limit_bounds.smallest_collected_bytes = 500 * kMiB;
  const AllocatorSpec spec = parse_spec("torch").value();
  EXPECT_FALSE(settle_recorded(program, spec));
  program.limit_bounds.smallest_refused_bytes = 600 * kMiB;
  EXPECT_EQ(settle_recorded(program, spec), 598 * kMiB);
}

}  // namespace
}  // namespace vram::replay
