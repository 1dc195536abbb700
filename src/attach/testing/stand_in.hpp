// StandIn: a process with the probes of PyTorch's libc10_cuda.so, counters included, that allocates
// and frees addresses on request. It is a fork of the test: the probes are in the test's program,
// whose own copy stays untouched.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <sys/types.h>

namespace vram::attach {

// Whether the kernel lets this process attach to others; otherwise why not.
[[nodiscard]] std::string why_no_attaching();

// The same calls with their arguments in memory, in narrow registers and as constants, under
// another provider.
inline constexpr const char* kOtherProvider = "other_places";

class StandIn {
 public:
  // `earlier_blocks` of 1 MiB each are allocated before the constructor returns.
  explicit StandIn(int threads = 1, uint64_t earlier_blocks = 0);
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  ~StandIn();

  [[nodiscard]] uint32_t pid() const { return static_cast<uint32_t>(pid_); }
  // Each thread makes so many allocations, with frees among them, and frees all its blocks. Returns
  // when they have, or when the process has ended.
  void work(uint64_t allocations);
  // The same until another request.
  void begin_work() { request(Request::kEndlessWork); }
  void end_work() { request(Request::kNothing); }
  void free_earlier_blocks();
  // Calls the other provider's probes once: address 0x7f00, device 3, 768 bytes, stream -2.
  void work_elsewhere();
  // Becomes `sleep`.
  void exec();
  // A child is forked, which allocates and ends.
  void fork_child();
  void kill();

  // What it holds, of blocks that were not there before, and the maximum since it was started: with
  // one thread.
  [[nodiscard]] uint64_t live_bytes() const { return shared_->live_bytes; }
  [[nodiscard]] uint64_t peak_bytes() const { return shared_->peak_bytes; }
  [[nodiscard]] uint64_t allocations() const { return shared_->allocations; }
  // Sum of the counters that switch the probes on, and whether the probes' instructions are as they
  // were built: read from the outside. -1: the process has gone.
  [[nodiscard]] int semaphores() const;
  [[nodiscard]] int changed_instructions() const;

 private:
  static constexpr int kMaxThreads = 8;
  enum class Request : uint32_t {
    kNothing,
    kWork,
    kEndlessWork,
    kFreeEarlier,
    kElsewhere,
    kExec,
    kFork
  };
  struct Shared {
    std::atomic<Request> request{Request::kNothing};
    std::atomic<uint64_t> turn{0};  // grows with each request
    std::atomic<uint64_t> requested_allocations{0};
    // The last turn that each thread has ended.
    std::array<std::atomic<uint64_t>, kMaxThreads> ended{};
    std::atomic<uint64_t> live_bytes{0};
    std::atomic<uint64_t> peak_bytes{0};
    std::atomic<uint64_t> allocations{0};
  };
  void request(Request request);
  void request_and_wait(Request request);
  [[noreturn]] void run(uint64_t earlier_blocks);
  void serve(int thread);
  void work_as(int thread, uint64_t allocations, uint64_t turn);
  void allocate(uint64_t address, uint64_t size_bytes);
  void release(uint64_t address, uint64_t size_bytes);
  void do_once(Request request);

  int threads_;
  uint64_t earlier_blocks_;
  Shared* shared_ = nullptr;
  pid_t pid_ = -1;
};

}  // namespace vram::attach
