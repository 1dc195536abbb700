// Replays a recording's requests and frees and times them, on PyTorch's current allocator or on
// libvram. operations.py compiles it on the machine with the GPU, as vram's adapter is compiled,
// and calls it with Python's lock released. No work is queued in the streams.
//
// Each thread plays the whole sequence again and again, on a stream and with blocks of its own:
// some rounds to warm up, then, once all threads have, rounds until its time is over.
#include <atomic>
#include <c10/cuda/CUDACachingAllocator.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <deque>
#include <string>
#include <thread>
#include <vector>
#include <vram/vram.h>

namespace {

constexpr int kWarmUpRounds = 3;

// As operations.py lays it out. After the last operation no block lives.
struct Sequence {
  const uint8_t* is_request;  // else the slot's block is freed
  const uint32_t* slots;
  const uint64_t* sizes;  // bytes, of requests
  uint64_t operation_count;
  uint64_t slot_count;
};

struct Torch {
  static void* request(size_t bytes, vram_stream stream) {
    return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(
        bytes, static_cast<cudaStream_t>(stream));
  }
  static void free(void* block) { c10::cuda::CUDACachingAllocator::raw_delete(block); }
};

struct Library {
  void* request(size_t bytes, vram_stream stream) const {
    void* block = nullptr;
    const vram_status status = vram_alloc(pool, bytes, stream, &block);
    TORCH_CHECK(status == VRAM_OK, vram_status_text(status));
    return block;
  }
  void free(void* block) const {
    const vram_status status = vram_free(pool, block);
    TORCH_CHECK(status == VRAM_OK, vram_status_text(status));
  }
  vram_pool* pool;
};

// Where threads wait for each other, once.
class Gate {
 public:
  explicit Gate(int threads) : missing_(threads) {}
  void pass() {
    --missing_;
    while (missing_ > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> missing_;
};

template <class Allocator>
class Player {
 public:
  Player(const Sequence& sequence, Allocator allocator, vram_stream stream)
      : sequence_(sequence), allocator_(allocator), stream_(stream), blocks_(sequence.slot_count) {}

  void run(Gate& gate, double seconds) {
    attempt([&] { warm_up(); });
    gate.pass();
    attempt([&] { measure(seconds); });
  }
  [[nodiscard]] double operations_per_second() const { return rate_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  // Nothing may leave a thread, and the others wait at the gate.
  template <class Action>
  void attempt(const Action& action) {
    if (!failure_.empty()) return;
    try {
      action();
    } catch (const std::exception& exception) {
      failure_ = exception.what();
    }
  }

  void warm_up() {
    // A new thread has no context yet, which the native allocator may take for granted.
    TORCH_CHECK(cudaFree(nullptr) == cudaSuccess, "no CUDA context");
    for (int round = 0; round < kWarmUpRounds; ++round) play();
  }

  void measure(double seconds) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    std::chrono::duration<double> elapsed{};
    uint64_t rounds = 0;
    while (elapsed.count() < seconds) {
      play();
      ++rounds;
      elapsed = Clock::now() - start;
    }
    rate_ = static_cast<double>(rounds * sequence_.operation_count) / elapsed.count();
  }

  void play() {
    for (uint64_t i = 0; i < sequence_.operation_count; ++i) {
      void*& block = blocks_[sequence_.slots[i]];
      if (sequence_.is_request[i] != 0) {
        block = allocator_.request(sequence_.sizes[i], stream_);
      } else {
        allocator_.free(block);
      }
    }
  }

  const Sequence sequence_;
  const Allocator allocator_;
  const vram_stream stream_;
  std::vector<void*> blocks_;
  double rate_ = 0;
  std::string failure_;
};

template <class Allocator>
std::string replay(const Sequence& sequence, Allocator allocator, const vram_stream* streams,
                   int threads, double seconds, double* rate) {
  Gate gate(threads);
  std::deque<Player<Allocator>> players;
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) players.emplace_back(sequence, allocator, streams[i]);
  for (Player<Allocator>& player : players) {
    running.emplace_back([&player, &gate, seconds] { player.run(gate, seconds); });
  }
  for (std::thread& thread : running) thread.join();
  *rate = 0;
  for (const Player<Allocator>& player : players) {
    if (!player.failure().empty()) return player.failure();
    *rate += player.operations_per_second();
  }
  return {};
}

}  // namespace

// Measures operations per second of all threads together, each with its own stream, on the pool or,
// if it is NULL, on PyTorch's allocator. Returns NULL or an error message, which is valid until the
// next call. Not thread-safe.
extern "C" C10_EXPORT const char* operations_replay(const Sequence* sequence, vram_pool* pool,
                                                    const vram_stream* streams, int threads,
                                                    double seconds, double* rate) {
  static std::string failure;
  failure = pool != nullptr ? replay(*sequence, Library{pool}, streams, threads, seconds, rate)
                            : replay(*sequence, Torch{}, streams, threads, seconds, rate);
  return failure.empty() ? nullptr : failure.c_str();
}
