// What every emulated allocator promises, under random programs with streams, pools and tight
// memory: blocks never overlap, are in memory that is there, memory stays below the capacity, and
// bytes are conserved. One suite for all peers.
#include "base/bytes.hpp"
#include "replay/registry.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace vram::replay {
namespace {

// Sizes up to twice 2^max_log2.
Program random_program(uint64_t seed, uint64_t max_log2) {
  std::mt19937_64 random(seed);
  ProgramBuilder p;
  std::vector<uint32_t> live;
  std::vector<uint32_t> pending;
  const auto take = [&](std::vector<uint32_t>& from) {
    const size_t i = random() % from.size();
    std::swap(from[i], from.back());
    const uint32_t block = from.back();
    from.pop_back();
    return block;
  };
  for (int i = 0; i < 4000; ++i) {
    const uint64_t dice = random() % 100;
    if (dice < 50 || live.empty()) {
      const uint64_t bytes = uint64_t{1} << (random() % (max_log2 + 1));
      live.push_back(p.alloc(bytes + random() % bytes, static_cast<trace::StreamId>(random() % 3),
                             random() % 20 == 0 ? 1 : 0));
    } else if (dice < 85) {
      p.free(take(live));
    } else if (dice < 93) {
      pending.push_back(take(live));
      p.free_later(pending.back());
    } else if (!pending.empty()) {
      p.complete(take(pending));
    }
    if (random() % 500 == 0) p.empty_cache();
    while (live.size() > 60) p.free(take(live));
  }
  while (!pending.empty()) p.complete(take(pending));
  while (!live.empty()) p.free(take(live));
  return p.build();
}

struct Case {
  const char* spec;
  uint64_t capacity_mib;
  bool has_bytes = false;         // real memory behind the addresses
  bool has_odd_segments = false;  // no multiples of the device's pages
};

// Follows what the allocator hands out.
class Watch {
 public:
  Watch(const Program& program, gpu::SimGpu& gpu, const Case& one)
      : blocks_(program.block_count),
        gpu_(gpu),
        capacity_bytes_(one.capacity_mib * kMiB),
        has_bytes_(one.has_bytes),
        has_odd_segments_(one.has_odd_segments) {}

  void handed_out(const Op& op, uint64_t address) {
    const auto next = held_.lower_bound(address);
    if (next != held_.end()) {
      ASSERT_GE(next->first, address + op.size_bytes);
    }
    if (next != held_.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, address);
    }
    held_[address] = op.size_bytes;
    blocks_[op.block] = address;
    mark(op.block);
  }
  // The program is done with a block that no other stream used: its bytes must be what they were.
  void freed(uint32_t block) {
    if (blocks_[block] != 0) expect_mark(block);
    gone(block);
  }
  void gone(uint32_t block) {
    if (blocks_[block] == 0) return;
    held_.erase(blocks_[block]);
    blocks_[block] = 0;
  }
  void check(const Usage& usage, const Counters& counters) const {
    ASSERT_LE(gpu_.used_bytes(0), capacity_bytes_);
    ASSERT_LE(usage.reserved_bytes, gpu_.used_bytes(0));
    // Of its last page an odd segment leaves something unused.
    const uint64_t segments = counters.device_allocs - counters.device_frees;
    const uint64_t unused = has_odd_segments_ ? segments * (gpu_.granularity_bytes() - 1) : 0;
    ASSERT_LE(gpu_.used_bytes(0) - usage.reserved_bytes, unused);
    ASSERT_LE(usage.allocated_bytes, usage.active_bytes);
    ASSERT_LE(usage.active_bytes, usage.reserved_bytes);
    ASSERT_LE(usage.requested_bytes, usage.active_bytes);
  }
  [[nodiscard]] bool all_gone() const { return held_.empty(); }

 private:
  // Its number at a block's first and last bytes, as a kernel would write it.
  void mark(uint32_t block) {
    if (!has_bytes_) return;
    const std::byte number[] = {static_cast<std::byte>(block), static_cast<std::byte>(block >> 8)};
    const uint64_t last = blocks_[block] + held_[blocks_[block]] - 1;
    ASSERT_EQ(gpu_.write(0, blocks_[block], std::span(number).first(1)), gpu::Status::kOk);
    ASSERT_EQ(gpu_.write(0, last, std::span(number).last(1)), gpu::Status::kOk);
  }
  void expect_mark(uint32_t block) {
    const uint64_t bytes = held_[blocks_[block]];
    if (!has_bytes_ || bytes < 2) return;
    std::byte first{};
    std::byte last{};
    ASSERT_EQ(gpu_.read(0, blocks_[block], std::span(&first, 1)), gpu::Status::kOk);
    ASSERT_EQ(gpu_.read(0, blocks_[block] + bytes - 1, std::span(&last, 1)), gpu::Status::kOk);
    EXPECT_EQ(first, static_cast<std::byte>(block));
    EXPECT_EQ(last, static_cast<std::byte>(block >> 8));
  }

  std::map<uint64_t, uint64_t> held_;
  std::vector<uint64_t> blocks_;
  gpu::SimGpu& gpu_;
  uint64_t capacity_bytes_;
  bool has_bytes_;
  bool has_odd_segments_;
};

class Conformance : public testing::TestWithParam<Case> {};

// A pending block counts as held until its completion, or until the allocator has waited for the
// device: then a request was served, or failed, by a retry.
void drive(const Program& program, const Case& one) {
  const uint64_t capacity_bytes = one.capacity_mib * kMiB;
  gpu::SimOptions sim;
  sim.devices = {gpu::SimDevice{.capacity_bytes = capacity_bytes}};
  sim.backing = one.has_bytes;
  gpu::SimGpu gpu(sim);
  SegmentSource segments(gpu, program);
  const AllocatorSpec spec = parse_spec(one.spec).value();
  const auto allocator = find_peer(spec.name)->make(
      spec.settings, {.program = program, .segments = segments, .limit_bytes = capacity_bytes});
  Watch watch(program, gpu, one);
  std::vector<uint32_t> pending;
  uint64_t served = 0;
  for (const Op& op : program.ops) {
    const uint64_t retries = allocator->counters().retries;
    if (op.kind == OpKind::kAlloc) {
      const uint64_t address =
          allocator->malloc({op.size_bytes, op.block, op.stream, op.pool, op.time_ns});
      if (allocator->counters().retries > retries) {
        for (const uint32_t block : pending) watch.gone(block);
        pending.clear();
      }
      if (address != 0) {
        ASSERT_NO_FATAL_FAILURE(watch.handed_out(op, address));
        ++served;
      }
    } else if (op.kind == OpKind::kFree) {
      ASSERT_NO_FATAL_FAILURE(watch.freed(op.block));
      allocator->free(op.block, op.time_ns);
    } else if (op.kind == OpKind::kFreeLater) {
      allocator->free_later(op.block, op.time_ns);
      pending.push_back(op.block);
    } else if (op.kind == OpKind::kComplete) {
      allocator->complete(op.block, op.time_ns);
      watch.gone(op.block);
      std::erase(pending, op.block);
    } else {
      allocator->empty_cache();
      for (const uint32_t block : pending) watch.gone(block);
      pending.clear();
    }
    ASSERT_NO_FATAL_FAILURE(watch.check(allocator->usage(), allocator->counters()));
  }
  EXPECT_GT(served, 100u);
  EXPECT_TRUE(watch.all_gone());
  EXPECT_EQ(allocator->usage().allocated_bytes, 0u);
  EXPECT_EQ(allocator->usage().active_bytes, 0u);
  EXPECT_EQ(allocator->usage().requested_bytes, 0u);
  std::string why;
  EXPECT_TRUE(gpu.validate(&why)) << why;
}

TEST_P(Conformance, RandomPrograms) {
  const Case& one = GetParam();
  for (uint64_t seed = 1; seed <= (one.has_bytes ? 2u : 6u); ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed, one.has_bytes ? 22 : 26);
    drive(program, one);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Peers, Conformance,
    testing::Values(
        Case{"torch", 1 << 20}, Case{"torch", 900}, Case{"torch:max_split_size_mb=32", 900},
        Case{"torch:garbage_collection_threshold=0.6", 1200},
        Case{"torch:roundup_power2_divisions=[2:4,>:8],large_segment_size_mb=32", 900},
        Case{"torch:expandable_segments=True", 1 << 20},
        Case{"torch:expandable_segments=True", 700},
        Case{"torch:expandable_segments=True,max_split_size_mb=32", 700}, Case{"torch", 110, true},
        Case{"torch:max_split_size_mb=21", 110, true},
        Case{"torch:expandable_segments=True", 90, true}, Case{"cupy", 1 << 20, false, true},
        Case{"cupy", 900, false, true}, Case{"cupy:limit=800MiB", 900, false, true},
        Case{"cupy", 110, true, true}, Case{"rmm_pool", 1 << 20, false, true},
        Case{"rmm_pool", 900, false, true},
        Case{"rmm_pool:initial_pool_size=256MiB,maximum_pool_size=800MiB", 900, false, true},
        Case{"rmm_pool", 110, true, true}, Case{"tf_bfc", 1 << 20, false, true},
        Case{"tf_bfc", 900, false, true},
        Case{"tf_bfc:allow_growth=False,memory_fraction=0.75", 1000},
        Case{"tf_bfc:garbage_collection=False", 900, false, true}, Case{"tf_bfc", 110, true, true},
        Case{"paddle", 1 << 20, false, true}, Case{"paddle", 900, false, true},
        Case{"paddle:auto_growth_chunk_size_in_mb=16,free_idle_chunk=True", 900, false, true},
        Case{"paddle:free_when_no_cache_hit=True,gpu_memory_limit_mb=800", 900, false, true},
        Case{"paddle", 110, true, true}, Case{"gmlake", 1 << 20}, Case{"gmlake", 900},
        Case{"gmlake:fragLimit=4MiB", 1 << 20}, Case{"gmlake:fragLimit=4MiB", 700},
        Case{"gmlake:fragLimit=2MiB,reuseLimit=1.5,autoGC=256MiB", 700},
        Case{"gmlake:fragLimit=2MiB,defragLevel=1", 700},
        Case{"gmlake:fragLimit=2MiB,defragLevel=2", 700}, Case{"gmlake:fragLimit=2MiB", 110, true},
        Case{"gmlake:fragLimit=2MiB,defragLevel=1", 90, true}, Case{"cuda_async", 1 << 20},
        Case{"cuda_async", 800}, Case{"cuda_async", 128, true}, Case{"vram", 1 << 20},
        Case{"vram", 600}, Case{"vram:handle_size=2MiB,slack_permille=0", 500},
        Case{"vram:handle_size=8MiB,slack_permille=0,stitched_percent=2", 500},
        Case{"vram", 90, true}, Case{"vram:handle_size=4MiB,slack_permille=0", 80, true}));

}  // namespace
}  // namespace vram::replay
