// How a thread of verify_pool queues work: kernels, delays, and the order between streams.
#pragma once

#include "machine.cuh"

#include <random>

template <typename T>
struct Same {
  using Type = T;
};
template <typename... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                   cudaStream_t stream, typename Same<Parameters>::Type... arguments) {
  void* pointers[] = {&arguments...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(threads),
                          pointers, 0, stream);
}

inline unsigned blocks_for(Word words) {
  constexpr Word kWordsEach = 8 * kThreadsPerBlock, kMaxBlocks = 1024;
  const Word blocks = (words + kWordsEach - 1) / kWordsEach;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

// One thread's.
class Queue {
 public:
  Queue(Machine& machine, int thread)
      : machine_(machine),
        worker_(*machine.workers[static_cast<size_t>(thread)]),
        thread_(thread),
        random_(machine.options.seed * 1000 + static_cast<Word>(thread)),
        last_tag_(static_cast<Tag>(thread + 1) << 28) {
    for (int device = 0; device < machine.options.devices; ++device) {
      on(device);
      cudaEvent_t event = nullptr;
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      events_.push_back(event);
    }
  }

  Word below(Word limit) { return random_() % limit; }
  bool chance(Word per_mille) { return below(1000) < per_mille; }
  [[nodiscard]] Tag new_tag() { return ++last_tag_; }

  void on(int device) {
    if (device_ == device) return;
    check(cudaSetDevice(device), "cudaSetDevice");
    device_ = device;
  }
  void note(const char* what, const void* stream, const void* other = nullptr) {
    (void)machine_.journal.note({0, what, stream, other, 0, 0, 0, thread_});
  }
  Word note(const char* what, const Block& block, const void* stream = nullptr) {
    const void* const own = block.life != nullptr ? block.life->stream : nullptr;
    return machine_.journal.note({0, what, stream != nullptr ? stream : own, own,
                                  reinterpret_cast<Word>(block.address), block.bytes, block.tag,
                                  thread_});
  }
  void check(cudaError_t result, const char* call) { machine_.check(result, call); }
  void check(vram_status status, const char* call) { machine_.check(status, call); }

  // These two may be captured, where an error is no end of the program. The stream's device is
  // current.
  [[nodiscard]] cudaError_t try_write(const Block& block, cudaStream_t stream) {
    note("write", block, stream);
    return launch(write_words, blocks_for(block.words()), kThreadsPerBlock, stream, block.address,
                  block.words(), block.tag);
  }
  [[nodiscard]] cudaError_t try_verify(const Block& block, int device, cudaStream_t stream) {
    const Word check = note("check", block, stream);
    Device& on_it = *machine_.devices[static_cast<size_t>(device)];
    return launch(check_words, blocks_for(block.words()), kThreadsPerBlock, stream, block.address,
                  block.words(), block.tag, on_it.wrong, on_it.checked, check);
  }
  void write(Block& block, cudaStream_t stream) {
    block.tag = new_tag();
    check(try_write(block, stream), "write_words");
  }
  void verify(const Block& block, int device, cudaStream_t stream) {
    check(try_verify(block, device, stream), "check_words");
    count_checks(1, block.words());
  }
  void verify(const Block& block, cudaStream_t stream) { verify(block, block.device, stream); }
  void count_checks(Word checks, Word words) {
    add(worker_.counters.checks, checks);
    add(worker_.counters.checked_words, words);
  }

  // The stream is late, mostly not.
  void delay(int device, cudaStream_t stream) {
    const Word dice = below(1000);
    if (dice < 68) note("is delayed", stream);
    if (dice < 6) {
      const unsigned value = worker_.flag.asked.fetch_add(1) + 1;
      check(launch(wait_for_flag, 1, 1, stream, worker_.flag.value, value,
                   machine_.devices[static_cast<size_t>(device)]->wrong),
            "wait_for_flag");
      add(worker_.counters.flag_waits);
    } else if (dice < 66) {
      check(launch(spin, 1, 1, stream, 5000 + below(200000)), "spin");
    } else if (dice < 68) {
      check(launch(spin, 1, 1, stream, 1000000 + below(4000000)), "spin");
    }
  }
  // What `later` does from now on comes after what `earlier` has queued. One event per device
  // suffices: a wait is for what the event stood for when the wait was queued.
  void order(int earlier_device, cudaStream_t earlier, int later_device, cudaStream_t later) {
    const cudaEvent_t event = events_[static_cast<size_t>(earlier_device)];
    note("is waited for by the other", earlier, later);
    on(earlier_device);
    check(cudaEventRecord(event, earlier), "cudaEventRecord");
    on(later_device);
    check(cudaStreamWaitEvent(later, event, 0), "cudaStreamWaitEvent");
  }

 protected:
  Machine& machine_;
  Worker& worker_;
  const int thread_;

 private:
  std::mt19937_64 random_;
  Tag last_tag_;
  int device_ = -1;
  std::vector<cudaEvent_t> events_;
};
