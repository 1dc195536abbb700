// Makes the calls of vram's tap on PyTorch's allocator (python/vram/torch/adapter) to one library
// or another. flight_tap.py compiles and loads this. On a machine without a GPU it is the tap:
// PyTorch's requests for memory of the CPU make the calls. With TAP_OF_GPU it stands before the
// library: the adapter finds these functions instead of the library's. One thread allocates.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>
#include <vram/record.h>
#ifndef TAP_OF_GPU
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#endif

namespace {

uint64_t ticks() {
#if defined __x86_64__
  return __builtin_ia32_rdtsc();
#else
  uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#endif
}

using Capture = uint32_t (*)();
using Emit = void (*)(const vram_event*);

enum Part : int { kStack, kAlloc, kFree, kParts };

struct Tap {
  Capture capture = nullptr;
  Emit emit = nullptr;
  bool is_timed = false;
  uint64_t requests = 0;
  std::vector<uint64_t> evictor;  // read before each event
  uint64_t read = 0;
  std::array<std::vector<uint32_t>, kParts> times;
};
Tap tap;

template <typename Action>
auto timed(Part part, const Action& action) {
  struct Timer {
    Part part;
    uint64_t began = tap.is_timed ? ticks() : 0;
    ~Timer() {
      if (!tap.is_timed) return;
      tap.times[part].push_back(
          static_cast<uint32_t>(std::min<uint64_t>(ticks() - began, UINT32_MAX)));
    }
  };
  const Timer timer{part};
  return action();
}

uint32_t capture() {
  ++tap.requests;
  return tap.capture != nullptr ? timed(kStack, tap.capture) : 0;
}

void emit(const vram_event& event) {
  if (tap.emit == nullptr) return;
  timed(event.kind == VRAM_EVENT_ALLOC ? kAlloc : kFree, [&] { tap.emit(&event); });
}

#ifndef TAP_OF_GPU

void evict() {
  for (size_t i = 0; i < tap.evictor.size(); i += 8) tap.read += tap.evictor[i];
}

void emit(vram_event_kind kind, const void* block, size_t bytes, uint32_t stack) {
  vram_event event{};
  event.kind = kind;
  event.address = reinterpret_cast<uint64_t>(block);
  event.size_bytes = bytes;
  event.stack = stack;
  emit(event);
}

class Tapped final : public at::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    evict();
    const uint32_t stack = capture();
    at::DataPtr data = native->allocate(bytes);
    if (data.get() != nullptr) emit(VRAM_EVENT_ALLOC, data.get(), bytes, stack);
    (void)data.compare_exchange_deleter(native->raw_deleter(), &release);
    return data;
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  static inline at::Allocator* native = nullptr;

 private:
  static void release(void* block) {
    if (block != nullptr) {
      evict();
      emit(VRAM_EVENT_FREE, block, 0, 0);
    }
    native->raw_deleter()(block);
  }
};

#endif

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

#ifdef TAP_OF_GPU
EXPORTED uint32_t vram_try_capture_stack() { return capture(); }
EXPORTED void vram_record_event(const vram_event* event) { emit(*event); }
#else
EXPORTED void install_tap() {
  static Tapped tapped;
  Tapped::native = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&tapped, 255);
}
#endif
// Which functions are called from now on; nullptr: none.
EXPORTED void use(Capture capture, Emit emit) {
  tap.capture = capture;
  tap.emit = emit;
}
EXPORTED void set_timed(int is_timed) { tap.is_timed = is_timed != 0; }
EXPORTED void set_evicted(size_t bytes) { tap.evictor.assign(bytes / 8, 1); }
EXPORTED uint64_t count_requests() { return tap.requests; }
EXPORTED uint64_t ticks_now() { return ticks(); }
// The mean of a part's shorter 90 % since the last call, as a processor's counter may advance by 10
// ns at a time; 0: there was none.
EXPORTED double take_mean(int part) {
  std::vector<uint32_t>& all = tap.times[static_cast<size_t>(part)];
  const auto end = all.begin() + static_cast<ptrdiff_t>(all.size() * 9 / 10);
  if (end == all.begin()) return 0;
  std::nth_element(all.begin(), end, all.end());
  const double mean =
      std::accumulate(all.begin(), end, 0.0) / static_cast<double>(end - all.begin());
  all.clear();
  return mean;
}
// Of a stack in a thread that runs no Python code, as autograd's.
EXPORTED double ticks_without_python(Capture capture, int calls) {
  double mean = 0;
  std::thread([&] {
    (void)capture();
    const uint64_t began = ticks();
    for (int i = 0; i < calls; ++i) (void)capture();
    mean = static_cast<double>(ticks() - began) / calls;
  }).join();
  return mean;
}
