// What a wait is worth that one thread queues in a stream (cudaStreamWaitEvent) while other threads
// launch graphs there, or kernels. Uses nothing of vram.
//
//     nvcc -O2 -std=c++17 -arch=native -o lost_wait tests/gpu/programs/lost_wait.cu
//     ./lost_wait 4    # seconds for each kind
//
// Stream A writes a block, late; stream B waits for A and checks the block. Prints one line of
// JSON: for each kind of launch in B the rounds, and the checks that ran before the write.
// `locked`: a launch and a wait exclude each other.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <mutex>
#include <thread>

namespace {

using Word = unsigned long long;
using Clock = std::chrono::steady_clock;
constexpr int kWords = 64;
constexpr int kLaunchers = 2;

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorName(result));
  std::_Exit(1);
}

__global__ void spin(Word duration_ns) {
  Word begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < duration_ns);
}
__global__ void write_block(volatile Word* block, Word value) { block[threadIdx.x] = value; }
__global__ void check_block(const volatile Word* block, Word value, Word* wrong) {
  if (block[threadIdx.x] != value && threadIdx.x == 0) atomicAdd(wrong, 1ull);
}
__global__ void do_nothing() {}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}
cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

struct Kind {
  const char* name;
  int nodes;  // of the graph; 0: a kernel is launched
  bool is_locked;
};

class Race {
 public:
  Race(Kind kind, double seconds) : kind_(kind), seconds_(seconds) {
    check(cudaMalloc(&block_, kWords * sizeof(Word)), "cudaMalloc");
    check(cudaMallocManaged(&wrong_, sizeof(Word)), "cudaMallocManaged");
    *wrong_ = 0;
  }
  void run() {
    std::thread launchers[kLaunchers];
    for (std::thread& launcher : launchers) launcher = std::thread([this] { launch(); });
    const auto end = Clock::now() + std::chrono::duration<double>(seconds_);
    while (Clock::now() < end) one_round();
    is_over_ = true;
    for (std::thread& launcher : launchers) launcher.join();
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf("\"%s\": {\"rounds\": %llu, \"wrong\": %llu}", kind_.name, rounds_, *wrong_);
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  [[nodiscard]] Lock lock() { return kind_.is_locked ? Lock(mutex_) : Lock(); }

  void launch() {
    cudaGraphExec_t exec = nullptr;
    if (kind_.nodes > 0) {
      const cudaStream_t captured = new_stream();
      cudaGraph_t graph = nullptr;
      check(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed),
            "cudaStreamBeginCapture");
      for (int i = 0; i < kind_.nodes; ++i) do_nothing<<<1, 32, 0, captured>>>();
      check(cudaStreamEndCapture(captured, &graph), "cudaStreamEndCapture");
      check(cudaGraphInstantiateWithFlags(&exec, graph, 0), "cudaGraphInstantiateWithFlags");
    }
    for (Word count = 1; !is_over_; ++count) {
      {
        const Lock guard = lock();
        if (kind_.nodes > 0) check(cudaGraphLaunch(exec, b_), "cudaGraphLaunch");
        if (kind_.nodes == 0) do_nothing<<<1, 32, 0, b_>>>();
      }
      if (count % 64 == 0) check(cudaStreamSynchronize(b_), "cudaStreamSynchronize");
    }
  }
  void one_round() {
    ++rounds_;
    spin<<<1, 1, 0, a_>>>(20000);
    write_block<<<1, kWords, 0, a_>>>(block_, rounds_);
    {
      const Lock guard = lock();
      check(cudaEventRecord(written_, a_), "cudaEventRecord");
      check(cudaStreamWaitEvent(b_, written_, 0), "cudaStreamWaitEvent");
    }
    check_block<<<1, kWords, 0, b_>>>(block_, rounds_, wrong_);
    check(cudaStreamSynchronize(b_), "cudaStreamSynchronize");
    check(cudaStreamSynchronize(a_), "cudaStreamSynchronize");
  }

  const Kind kind_;
  const double seconds_;
  const cudaStream_t a_ = new_stream(), b_ = new_stream();
  const cudaEvent_t written_ = new_event();
  Word* block_ = nullptr;
  Word* wrong_ = nullptr;
  Word rounds_ = 0;
  std::mutex mutex_;
  std::atomic<bool> is_over_{false};
};

}  // namespace

int main(int count, char** words) {
  const double seconds = count > 1 ? std::atof(words[1]) : 4;
  const char* separator = "{";
  for (const Kind kind :
       {Kind{"kernels", 0, false}, Kind{"graph_of_1", 1, false}, Kind{"graph_of_3", 3, false},
        Kind{"graph_of_1_locked", 1, true}, Kind{"graph_of_3_locked", 3, true}}) {
    std::printf("%s", separator);
    Race(kind, seconds).run();
    std::fflush(stdout);
    separator = ", ";
  }
  std::printf("}\n");
}
