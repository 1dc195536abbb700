// Random programs against the pool on simulated memory with real bytes: a live block keeps
// what was written to it, and what a stream gets no other stream's work still uses.
#include "base/bytes.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "pool/device.hpp"
#include "pool/pool.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace vram::pool {
namespace {

// OrderedGpu: the simulated GPU, with a second account of which stream's work starts when. For
// tests that ask whether memory went to another stream too early.
class OrderedGpu : public gpu::SimGpu {
 public:
  using SimGpu::SimGpu;
  using Event = gpu::EventHandle;

  void work(gpu::StreamHandle stream, int64_t duration_ns) {
    ends_[stream] = start_of_work(stream) + duration_ns;
    (void)enqueue(0, stream, duration_ns);
  }
  // When work that is queued now would start.
  [[nodiscard]] int64_t start_of_work(gpu::StreamHandle stream) {
    return std::max(now_ns(), ends_[stream]);
  }
  [[nodiscard]] gpu::Status record(uint32_t device, gpu::StreamHandle stream,
                                   Event* event) override {
    const int64_t time_ns = start_of_work(stream);
    const gpu::Status status = SimGpu::record(device, stream, event);
    if (status == gpu::Status::kOk) events_[*event] = time_ns;
    return status;
  }
  [[nodiscard]] gpu::Status stream_wait(uint32_t device, gpu::StreamHandle stream,
                                        Event event) override {
    const gpu::Status status = SimGpu::stream_wait(device, stream, event);
    if (status == gpu::Status::kOk) ends_[stream] = std::max(ends_[stream], events_[event]);
    return status;
  }

 private:
  std::map<gpu::StreamHandle, int64_t> ends_;
  std::map<Event, int64_t> events_;
};

constexpr uint64_t kUnit = 512;
constexpr uint64_t kStep = 4096;

// What is written at a block's beginning and at every multiple of the step in it: while it lives
// its number, afterwards who used it last.
struct Tag {
  uint64_t block = 0;  // 0: free
  uint64_t stream = 0;
  int64_t done_ns = 0;
};

class Program {
 public:
  Program(uint64_t seed, uint64_t capacity_bytes, const Options& options)
      : random_(seed),
        gpu_(sim_options(capacity_bytes)),
        device_(gpu_, 0),
        pool_(device_, options) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      const uint64_t dice = random_() % 100;
      if (dice < 52) {
        allocate();
      } else if (dice < 97) {
        if (!live_.empty()) free(random_() % live_.size());
      } else if (dice < 98) {
        (void)pool_.trim((random_() % 32) * kMiB);
      } else {
        gpu_.advance(static_cast<int64_t>(random_() % 3'000'000));
      }
      while (live_.size() > 70) free(random_() % live_.size());
      if (i % 50 == 0) check();
    }
    while (!live_.empty()) free(live_.size() - 1);
    check();
    EXPECT_EQ(pool_.stats().active_bytes.current, 0u);
  }
  [[nodiscard]] const Stats& stats() const { return pool_.stats(); }

 private:
  struct Live {
    Allocation got;
    uint64_t bytes = 0;
    uint64_t stream = 0;
    uint64_t number = 0;
  };
  static gpu::SimOptions sim_options(uint64_t capacity_bytes) {
    gpu::SimOptions options = device_of(capacity_bytes);
    options.backing = true;
    options.poison_on_unmap = true;
    return options;
  }

  static uint64_t after(Address address, uint64_t at) {
    return (address + at) / kStep * kStep + kStep - address;
  }
  void allocate() {
    const uint64_t size = uint64_t{512} << random_() % 14;
    const uint64_t bytes = size + random_() % size;
    const uint64_t stream = random_() % 3 * 64;
    const Allocation got = pool_.allocate(bytes, stream);
    if (got.address == 0) return;
    EXPECT_EQ(got.address % kUnit, 0u);
    live_.push_back({got, bytes, stream, ++last_number_});
    for (uint64_t at = 0; at + sizeof(Tag) <= bytes; at = after(got.address, at)) {
      expect_free(got.address + at, stream);
      write(got.address + at, {.block = last_number_});
      if (testing::Test::HasFatalFailure()) return;
    }
    gpu_.work(stream, static_cast<int64_t>(random_() % 200'000));
  }
  void free(size_t index) {
    const Live live = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    const Tag tag{0, live.stream, gpu_.start_of_work(live.stream)};
    for (uint64_t at = 0; at + sizeof(Tag) <= live.bytes; at = after(live.got.address, at)) {
      ASSERT_EQ(read(live.got.address + at).block, live.number) << "at " << at;
      write(live.got.address + at, tag);
    }
    pool_.free(live.got.block);
  }
  void expect_free(Address address, uint64_t stream) {
    const Tag tag = read(address);
    if (tag.block == UINT64_MAX) return;  // poison
    ASSERT_EQ(tag.block, 0u) << "is in a live block";
    if (tag.stream != stream) {
      ASSERT_LE(tag.done_ns, gpu_.start_of_work(stream)) << "another stream's work still uses it";
    }
  }
  Tag read(Address address) {
    Tag tag;
    EXPECT_EQ(gpu_.read(0, address, std::as_writable_bytes(std::span(&tag, 1))), Status::kOk);
    return tag;
  }
  void write(Address address, Tag tag) {
    ASSERT_EQ(gpu_.write(0, address, std::as_bytes(std::span(&tag, 1))), Status::kOk);
  }
  void check() {
    std::string why;
    ASSERT_TRUE(pool_.validate(&why)) << why;
    ASSERT_TRUE(gpu_.validate(&why)) << why;
    ASSERT_EQ(gpu_.used_bytes(0), pool_.stats().reserved_bytes.current);
  }

  std::mt19937_64 random_;
  OrderedGpu gpu_;
  Device device_;
  Pool pool_;
  std::vector<Live> live_;
  uint64_t last_number_ = 0;
};

TEST(PoolPropertyTest, BytesAndStreamOrderHoldWithRoom) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Program(seed, kGiB, {}).run(4000);
  }
}

TEST(PoolPropertyTest, BytesAndStreamOrderHoldUnderPressure) {
  uint64_t stitches = 0;
  uint64_t ooms = 0;
  for (uint64_t seed = 11; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed, 64 * kMiB,
                    {.handle_bytes = seed % 2 == 0 ? 4 * kMiB : 2 * kMiB,
                     .stitched_percent = seed % 3 == 0 ? 20u : 200u});
    program.run(4000);
    stitches += program.stats().stitches;
    ooms += program.stats().num_ooms;
  }
  EXPECT_GT(stitches, 100u) << "the test no longer tests it";
  EXPECT_GT(ooms, 0u);
}

}  // namespace
}  // namespace vram::pool
