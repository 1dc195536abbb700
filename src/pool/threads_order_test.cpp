// Threads that compete for one pool on a GPU that finds every access out of order: each has a
// stream of its own, hands blocks to the others, captures its stream for a while, forgets it.
#include "base/bytes.hpp"
#include "gpu/sim/checked_gpu.hpp"
#include "gpu/wrapped.hpp"
#include "pool/device.hpp"
#include "pool/shared_pool.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

// LockedGpu: the checked GPU for several threads, one at a time, as the driver is. To its checks
// all threads are one host: what one of them knows to be done, all know, as they do who meet at the
// pool's lock.
class LockedGpu {
 public:
  explicit LockedGpu(const gpu::SimOptions& options)
      : gpu_(options), memory_(gpu_, Locked{&lock_}) {}

  // Several calls as one: function(CheckedGpu&).
  template <typename Function>
  auto with(Function function) {
    const std::lock_guard guard(lock_);
    return function(gpu_);
  }
  // Each call alone.
  [[nodiscard]] gpu::Memory& memory() { return memory_; }

 private:
  struct Locked {
    std::mutex* lock;
    template <typename Run>
    gpu::Status operator()(gpu::Call, Run run) const {
      const std::lock_guard guard(*lock);
      return run();
    }
  };

  std::mutex lock_;
  gpu::CheckedGpu gpu_;
  gpu::WrappedMemory<Locked> memory_;
};

constexpr uint64_t kThreads = 4;
constexpr int kOps = 20'000;  // of each

struct Handed {
  Address address = 0;
  uint64_t bytes = 0;
  uint64_t tag = 0;
  StreamHandle stream = 0;
};

class Crowd {
 public:
  Crowd(uint64_t capacity_bytes, bool announces_captures)
      : announces_captures_(announces_captures),
        gpu_(device_of(capacity_bytes)),
        device_(gpu_.memory(), 0),
        pool_(device_, {.handle_bytes = kSmallHandleBytes}) {}
  ~Crowd() {
    for (const Handed& block : handed_) EXPECT_TRUE(pool_.free(block.address));
  }

  void run(int factor) {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i, factor] { work(i, kOps * factor); });
    }
    for (std::thread& thread : threads) thread.join();
    gpu_.with([](gpu::CheckedGpu& gpu) {
      gpu.finish_work();
      EXPECT_THAT(gpu.violations(), testing::IsEmpty());
    });
    std::string why;
    EXPECT_TRUE(pool_.validate(&why)) << why;
  }
  [[nodiscard]] Stats stats() { return pool_.stats(); }

 private:
  void work(uint64_t thread, int count) {
    std::mt19937_64 random(thread + 1);
    std::vector<Handed> live;
    StreamHandle stream = thread;
    bool is_captured = false;
    for (int i = 0; i < count; ++i) {
      const uint64_t dice = random() % 1000;
      if (i % 64 == 0) pool_.assume_competition();
      if (dice < 450) {
        allocate(random(), stream, &live);
      } else if (dice < 850) {
        if (!live.empty()) free(random() % live.size(), &live);
      } else if (dice < 900) {
        if (!live.empty() && !is_captured) hand_over(random() % live.size(), &live);
      } else if (dice < 950) {
        if (!is_captured) take_over(stream);
      } else if (dice < 996) {
        gpu_.with([&](gpu::CheckedGpu& gpu) { (void)gpu.step(random()); });
      } else if (dice < 997) {
        capture(stream, !std::exchange(is_captured, !is_captured));
      } else if (dice < 998) {
        (void)pool_.trim(random() % 8 * kMiB);
      } else {
        if (std::exchange(is_captured, false)) capture(stream, false);
        while (!live.empty()) hand_over(live.size() - 1, &live);
        pool_.forget(stream);
        gpu_.with([&](gpu::CheckedGpu& gpu) { gpu.end_stream(stream); });
        stream += kThreads;  // never named before
      }
    }
    while (!live.empty()) free(live.size() - 1, &live);
    if (is_captured) capture(stream, false);
  }
  void allocate(uint64_t number, StreamHandle stream, std::vector<Handed>* live) {
    if (live->size() > 40) free(number % live->size(), live);
    const uint64_t bytes = uint64_t{512} << number % (number % 8 == 0 ? 14 : 9);
    const Address address = pool_.allocate(bytes, stream);
    if (address == 0) return;
    live->push_back({address, bytes, ++last_tag_, stream});
    use(live->back(), stream, true);
  }
  void use(const Handed& block, StreamHandle stream, bool is_write) {
    gpu_.with([&](gpu::CheckedGpu& gpu) {
      gpu.work(stream, {{block.address, block.bytes, block.tag, is_write}});
    });
  }
  void free(size_t index, std::vector<Handed>* live) {
    std::swap((*live)[index], live->back());
    use(live->back(), live->back().stream, false);
    EXPECT_TRUE(pool_.free(live->back().address));
    live->pop_back();
  }
  // The thread that takes it waits for its stream, which may be forgotten by then: so the wait is
  // queued by an event of now.
  void hand_over(size_t index, std::vector<Handed>* live) {
    std::swap((*live)[index], live->back());
    const Handed block = live->back();
    live->pop_back();
    const std::lock_guard guard(lock_);
    gpu::EventHandle event = 0;
    EXPECT_EQ(gpu_.memory().record(0, block.stream, &event), Status::kOk);
    handed_.push_back(block);
    events_.push_back(event);
  }
  void take_over(StreamHandle stream) {
    Handed block;
    {
      const std::lock_guard guard(lock_);
      if (handed_.empty()) return;
      block = handed_.back();
      EXPECT_EQ(gpu_.memory().stream_wait(0, stream, events_.back()), Status::kOk);
      EXPECT_EQ(gpu_.memory().destroy(events_.back()), Status::kOk);
      handed_.pop_back();
      events_.pop_back();
    }
    EXPECT_TRUE(pool_.record_stream(block.address, stream));
    use(block, stream, false);
    EXPECT_TRUE(pool_.free(block.address));
  }
  void capture(StreamHandle stream, bool begins) {
    if (announces_captures_ && begins) pool_.begin_capture();
    gpu_.with([&](gpu::CheckedGpu& gpu) {
      begins ? gpu.begin_capture(stream) : gpu.end_capture(stream);
    });
    if (announces_captures_ && !begins) pool_.end_capture();
  }

  bool announces_captures_;
  LockedGpu gpu_;
  Device device_;
  SharedPool pool_;
  std::atomic<uint64_t> last_tag_{0};
  std::mutex lock_;
  std::vector<Handed> handed_;
  std::vector<gpu::EventHandle> events_;
};

TEST(ThreadsOrderTest, NothingIsUsedOutOfOrder) {
  const bool is_deep = std::getenv("VRAM_DEEP") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  for (const uint64_t capacity_bytes : {64 * kMiB, 1024 * kMiB}) {
    for (const bool announces_captures : {false, true}) {
      Crowd crowd(capacity_bytes, announces_captures);
      crowd.run(is_deep ? 5 : 1);
      EXPECT_GT(crowd.stats().allocation.allocated, 10'000u);
      EXPECT_GT(crowd.stats().shelf_hits, 1000u) << "the test no longer tests it";
    }
  }
}

}  // namespace
}  // namespace vram::pool
