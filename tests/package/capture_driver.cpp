// Runs the compiled adapter (named on the command line) between the two stand-ins while a CUDA
// graph is captured, and checks which frees reach the pool when. Says which checks failed; the exit
// code is their number.
#include "checks.hpp"
#include "stand_ins.hpp"

#include <atomic>
#include <cstdio>
#include <dlfcn.h>
#include <thread>

namespace {

using c10::DataPtr;
using stand_in::count;
using stand_in::cuda;
using stand_in::current;
using stand_in::failures;
using stand_in::live_blocks;
using stand_in::only;
using stand_in::pool_id;
using stand_in::set_current;
using stand_in::was_called;

// What the captured stream only uses the pool itself keeps (src/capi/capture_test.cpp).
void frees_of_the_captured_stream_alone_are_put_off() {
  set_current(0, 0);
  DataPtr of_default = current().allocate(300);
  set_current(0, 8);
  DataPtr of_another = current().allocate(301);
  set_current(0, 7);
  DataPtr of_captured = current().allocate(302);
  current().beginAllocateToPool(0, pool_id(2), only(7));
  cuda().captured_stream = 7;
  const size_t live = live_blocks(0);
  of_default.clear();
  CHECK(live_blocks(0) == live - 1);
  of_another.clear();
  CHECK(live_blocks(0) == live - 2);
  of_captured.clear();
  CHECK(live_blocks(0) == live - 2);
  set_current(0, 8);
  const DataPtr meanwhile = current().allocate(303);
  CHECK(live_blocks(0) == live - 1);
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
  CHECK(live_blocks(0) == live - 2);
}

// What the pool gives back it has waited for by events of its own, which no capture minds.
void the_pool_is_trimmed_beside_a_capture() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(2), only(7));
  cuda().captured_stream = 7;
  set_current(0, 8);
  current().allocate(301).clear();
  CHECK(!was_called("trim 0"));
  current().emptyCache();
  CHECK(was_called("trim 0"));
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
}

// The native allocator waits for streams before it gives memory back.
void the_native_cache_is_left_alone_beside_a_capture() {
  const auto ask_for_too_much = [] {
    try {
      current().allocate(stand_in::vram().capacity_bytes + 1).clear();
      return false;
    } catch (const c10::OutOfMemoryError&) {
      return true;
    }
  };
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(5), only(7));
  set_current(0, 8);
  const size_t emptied = count("emptyCache 0");
  const int relaxed = cuda().relaxed;
  CHECK(ask_for_too_much());
  CHECK(count("emptyCache 0") == emptied + 1);
  CHECK(cuda().relaxed == relaxed + 1);  // a capture may begin at any moment
  cuda().captured_stream = 7;
  CHECK(ask_for_too_much());
  CHECK(count("emptyCache 0") == emptied + 1);
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(5));
}

// More than the pool has room for, were their frees put off. A block of the captured stream is,
// whichever thread frees it.
void threads_go_on_beside_a_capture() {
  set_current(0, 7);
  DataPtr of_captured = current().allocate(302);
  current().beginAllocateToPool(0, pool_id(2), only(7));
  cuda().captured_stream = 7;
  const size_t live = live_blocks(0);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (uintptr_t number = 0; number < 4; ++number) {
    threads.emplace_back([number, &refused] {
      set_current(0, 100 + number);
      try {
        for (int round = 0; round < 500; ++round) (void)current().allocate(200 << 10);
      } catch (const c10::OutOfMemoryError&) {
        ++refused;
      }
    });
  }
  threads.emplace_back([&of_captured] { of_captured.clear(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(refused == 0);
  CHECK(live_blocks(0) == live);
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
  CHECK(live_blocks(0) == live - 1);
}

}  // namespace

int main(int, char** arguments) {
  void* const adapter = dlopen(arguments[1], RTLD_NOW);
  if (adapter == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 100;
  const auto install =
      reinterpret_cast<const char* (*)(uint64_t)>(dlsym(adapter, "vram_torch_install"));
  CHECK(install(0) == nullptr);
  frees_of_the_captured_stream_alone_are_put_off();
  the_pool_is_trimmed_beside_a_capture();
  the_native_cache_is_left_alone_beside_a_capture();
  threads_go_on_beside_a_capture();
  if (failures == 0) std::puts("all checks hold");
  return failures;
}
