// GMLake's blocks share memory through several addresses: with real bytes, none is handed out
// twice.
#include "base/bytes.hpp"
#include "replay/registry.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <span>

namespace vram::replay {
namespace {

// A device with real bytes, and a program that writes to every 2 MiB of its blocks.
class Bytes {
 public:
  Bytes(std::string_view text, const Program& program) : gpu_(options()), segments_(gpu_, program) {
    const AllocatorSpec spec = parse_spec(text).value();
    allocator_ = find_peer(spec.name)->make(
        spec.settings, {.program = program, .segments = segments_, .limit_bytes = std::nullopt});
    segments_.begin_program();
  }

  void step(const Op& op) {
    if (op.kind == OpKind::kAlloc) return alloc(op);
    if (op.kind == OpKind::kFree) return free(op.block);
    allocator_->empty_cache();
  }
  void empty_cache() { allocator_->empty_cache(); }
  [[nodiscard]] gpu::SimGpu& gpu() { return gpu_; }
  [[nodiscard]] const Allocator& allocator() const { return *allocator_; }
  [[nodiscard]] size_t held() const { return held_.size(); }
  // What was mapped at a second address, in sum.
  [[nodiscard]] uint64_t stitched_bytes() const {
    uint64_t bytes = gpu_.stats()[gpu::Call::kMap].count * 2 * kMiB;
    for (const DriverCall& call : segments_.log()) {
      if (call.kind == DriverCall::Kind::kMap) bytes -= call.size_bytes;
    }
    return bytes;
  }

 private:
  void alloc(const Op& op) {
    const uint64_t address = allocator_->malloc({op.size_bytes, op.block, op.stream, 0, 0});
    if (address == 0) return;
    held_[op.block] = {address, op.size_bytes};
    for_each_stamp(op.block, [&](uint64_t at, uint64_t stamp) {
      ASSERT_EQ(gpu_.write(0, at, std::as_bytes(std::span(&stamp, 1))), gpu::Status::kOk);
    });
  }
  void free(uint32_t block) {
    for_each_stamp(block, [&](uint64_t at, uint64_t stamp) {
      uint64_t found = 0;
      ASSERT_EQ(gpu_.read(0, at, std::as_writable_bytes(std::span(&found, 1))), gpu::Status::kOk);
      ASSERT_EQ(found, stamp) << "block " << block;
    });
    allocator_->free(block, 0);
    held_.erase(block);
  }
  static gpu::SimOptions options() {
    return {.devices = {gpu::SimDevice{.capacity_bytes = 128 * kMiB}}, .backing = true};
  }
  template <typename Visit>
  void for_each_stamp(uint32_t block, Visit visit) {
    const auto found = held_.find(block);
    if (found == held_.end()) return;
    const auto [address, bytes] = found->second;
    for (uint64_t offset = 0; offset < bytes; offset += 2 * kMiB) {
      visit(address + offset, (uint64_t{block} << 32) + offset);
    }
  }

  gpu::SimGpu gpu_;
  SegmentSource segments_;
  std::unique_ptr<Allocator> allocator_;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> held_;
};

Program large_requests(uint64_t seed) {
  std::mt19937_64 random(seed);
  ProgramBuilder p;
  std::vector<uint32_t> live;
  for (int i = 0; i < 1500; ++i) {
    if (live.size() < 12 && random() % 100 < 55) {
      live.push_back(p.alloc((1 + random() % 12) * 2 * kMiB, random() % 8 == 0 ? 1 : 0));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      p.free(live.back());
      live.pop_back();
    }
    if (random() % 300 == 0) p.empty_cache();
  }
  for (const uint32_t block : live) p.free(block);
  return p.build();
}

TEST(GmLake, NoByteIsHandedOutTwice) {
  for (const char* text : {"gmlake:fragLimit=2MiB", "gmlake:fragLimit=8MiB,autoGC=64MiB",
                           "gmlake:fragLimit=2MiB,reuseLimit=1,defragLevel=1",
                           "gmlake:fragLimit=4MiB,defragLevel=2"}) {
    const Program program = large_requests(7);
    Bytes bytes(text, program);
    for (const Op& op : program.ops) {
      ASSERT_NO_FATAL_FAILURE(bytes.step(op));
      ASSERT_EQ(bytes.allocator().usage().reserved_bytes, bytes.gpu().used_bytes(0)) << text;
    }
    EXPECT_GT(bytes.stitched_bytes(), 200 * kMiB) << text;
    EXPECT_EQ(bytes.held(), 0u);
    bytes.empty_cache();
    EXPECT_EQ(bytes.gpu().used_bytes(0), 0u);
    std::string why;
    EXPECT_TRUE(bytes.gpu().validate(&why)) << why;
  }
}

}  // namespace
}  // namespace vram::replay
