// Patterns of the driver's memory, of segments, of pinned memory and of several GPUs, planted as in
// patterns_test.cpp.
#include "base/bytes.hpp"
#include "explain/testing/planted.hpp"
#include "explain/waste/patterns.hpp"
#include "trace/allocators.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace vram::explain {
namespace {

using testing::find;
using ::testing::HasSubstr;
using testing::patterns_in;
using testing::Planted;
using Block = Planted::Block;
using Training = testing::PlantedTraining;

// In the first step, blocks that stay are made between others that go: each step after it needs new
// segments, since none of those that were left has room. `at_setup`: they are made before it.
DeviceReport mix(bool at_setup) {
  Planted p;
  std::vector<Block> stay;
  if (at_setup)
    for (int i = 0; i < 8; ++i) stay.push_back(p.alloc(2 * kMiB, p.in_module(5)));
  for (int step = 0; step < 8; ++step) {
    p.begin("train_step");
    std::vector<Block> go;
    for (int i = 0; i < 8; ++i) {
      const Block first = p.alloc(12 * kMiB);
      if (step > 0 || at_setup) {
        go.push_back(first);
        continue;
      }
      p.free(first);
      stay.push_back(p.alloc(2 * kMiB, p.in_module(5)));
      go.push_back(p.alloc(10 * kMiB));
    }
    p.free_all(go);
    p.end("train_step");
  }
  return p.report();
}

TEST(DriverPatterns, BlocksThatStayAreMixedWithOthers) {
  const DeviceReport mixed = mix(false);
  const auto found = find(mixed, FindingKind::kMixedLifetimes);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->saves_reserved_bytes, mixed.peak.reserved.totals.reserved_bytes -
                                             mix(true).peak.reserved.totals.reserved_bytes);
  EXPECT_EQ(found->line, "model.py:5 forward");
  EXPECT_THAT(found->detail,
              HasSubstr("model.py:5 forward (16 MiB next to 80 MiB of free memory)"));
  EXPECT_FALSE(find(mix(true), FindingKind::kMixedLifetimes));
}

DeviceReport empty_cache_in(bool has_stack, uint32_t every) {
  Training training;
  training.at_end = [&, has_stack, every](uint32_t step) {
    if (step % every != every - 1) return;
    training.p.empty_cache(has_stack ? training.p.stack({{"empty_cache", "/w/torch/cuda/memory.py"},
                                                         {"main", "/home/me/train.py", 88}})
                                     : 0);
  };
  return training.report();
}

TEST(DriverPatterns, MemoryGoesToTheDriverAndBack) {
  const auto cleaning = find(empty_cache_in(true, 1), FindingKind::kCleaning);
  ASSERT_TRUE(cleaning);
  EXPECT_EQ(cleaning->line, "train.py:88 main");
  EXPECT_EQ(cleaning->saves_bytes, 0U);
  EXPECT_TRUE(find(empty_cache_in(false, 1), FindingKind::kChurn));
  // Recordings of torch.profiler, RMM and XProf have a segment for each block.
  Training training;
  training.at_end = [&](uint32_t) { training.p.empty_cache(0); };
  training.report();
  trace::Trace& recorded = training.p.trace();
  recorded.settings.push_back(
      {std::string(trace::kAllocatorSetting), std::string(trace::kUnknownAllocator)});
  EXPECT_FALSE(find(explain(recorded).value().devices[0], FindingKind::kChurn));
  // Once in the recording: between two stages, it may pay.
  EXPECT_TRUE(patterns_in(empty_cache_in(true, 8)).empty());
}

// Two GPUs of one process; the first one gathers the outputs. `second_bytes`: what the other holds.
Report parallel(uint64_t second_bytes) {
  Training training;
  std::vector<Block> outputs;
  training.after_forward = [&](uint32_t) {
    outputs.push_back(training.p.alloc(
        48 * kMiB, training.p.stack({{"gather", "/w/torch/nn/parallel/comm.py"},
                                     {"gather", "/w/torch/nn/parallel/scatter_gather.py"},
                                     {"forward", "/w/torch/nn/parallel/data_parallel.py"},
                                     {"main", "/home/me/train.py", 12}})));
  };
  training.at_end = [&](uint32_t) { training.p.free_all(outputs); };
  training.report();
  trace::Trace& trace = training.p.trace();
  trace::DeviceTrace& second = trace.devices.emplace_back();
  second.ordinal = 1;
  second.first_event = trace.events.size();
  second.event_count = 2;
  const trace::Event last = trace.events.back();
  for (const trace::EventKind kind : {trace::EventKind::kSegmentAlloc, trace::EventKind::kAlloc})
    trace.events.push_back(
        {.time_ns = last.time_ns, .address = 1U << 30, .size_bytes = second_bytes, .kind = kind});
  return explain(trace).value();
}

TEST(DriverPatterns, DataParallelGathersOnOneGpu) {
  const Report uneven = parallel(100 * kMiB);
  const auto found = find(uneven.devices[0], FindingKind::kDataParallel);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->line, "train.py:12 main");
  EXPECT_THAT(found->title, HasSubstr("more than the others"));
  EXPECT_EQ(found->saves_bytes, 48 * kMiB);
  EXPECT_FALSE(find(parallel(190 * kMiB).devices[0], FindingKind::kDataParallel));
}

// Pinned memory of which each step needs another size.
DeviceReport pin(bool grows) {
  Planted p(AllocatorRules({}, true));
  for (uint64_t step = 0; step < 12; ++step) {
    p.begin("train_step");
    p.free(p.alloc(16 * kMiB + (grows ? step : 0) * 2 * kMiB));
    p.free(p.alloc(kMiB / 2));
    p.end("train_step");
  }
  return p.report(trace::DeviceKind::kHost);
}

TEST(DriverPatterns, PinnedMemoryPilesUp) {
  const auto found = find(pin(true), FindingKind::kPinnedHost);
  ASSERT_TRUE(found);
  EXPECT_GT(found->bytes, 200 * kMiB);
  EXPECT_FALSE(find(pin(false), FindingKind::kPinnedHost));
}

}  // namespace
}  // namespace vram::explain
