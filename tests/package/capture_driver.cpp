// Runs the compiled adapter (named on the command line) between the two stand-ins while a CUDA
// graph is captured, and checks which frees reach the pool when. Says which checks failed; the exit
// code is their number.
#include "checks.hpp"
#include "stand_ins.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <thread>

namespace {

using c10::DataPtr;
using stand_in::cuda;
using stand_in::current;
using stand_in::failures;
using stand_in::live_blocks;
using stand_in::only;
using stand_in::pool_id;
using stand_in::set_current;
using stand_in::times_called;
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
  const int relaxed = cuda().relaxed;
  of_default.clear();
  CHECK(live_blocks(0) == live - 1);
  of_another.clear();
  CHECK(live_blocks(0) == live - 2);
  CHECK(cuda().relaxed == relaxed + 2);
  of_captured.clear();
  CHECK(live_blocks(0) == live - 2);
  set_current(0, 8);
  const DataPtr meanwhile = current().allocate(303);
  CHECK(live_blocks(0) == live - 1);
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
  CHECK(live_blocks(0) == live - 2);
}

void the_pool_is_told_of_a_capture() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(2), only(7));
  cuda().captured_stream = 7;
  const int relaxed = cuda().relaxed;
  set_current(0, 8);
  const DataPtr meanwhile = current().allocate(301);
  CHECK(cuda().relaxed == relaxed + 1);
  CHECK(was_called("begin capture") && was_called("end capture"));  // the pool does not wait
  CHECK(!was_called("trim 0"));
  current().emptyCache();
  CHECK(!was_called("trim 0"));  // it would wait for the device
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
}

// Out of memory: what could be served only by waiting is not, during a capture.
bool is_refused(size_t bytes) {
  try {
    current().allocate(bytes).clear();
    return false;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  }
}

// Between the two calls of a thread that begins to capture, nothing is captured yet.
void a_capture_that_is_about_to_begin_is_not_broken() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(2), only(7));
  stand_in::vram().is_short = true;
  stand_in::vram().before_alloc = [] { cuda().captured_stream = 7; };
  set_current(0, 8);
  CHECK(is_refused(300));
  CHECK(!was_called("broke a capture"));
  stand_in::vram().is_short = false;
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
}

// The other thread saw no capture when it entered the library, and there the pool has to wait.
void a_capture_that_begins_during_a_request_is_not_broken() {
  stand_in::vram().is_short = true;
  set_current(0, 8);
  stand_in::vram().before_alloc = [] {
    std::thread([] {
      set_current(0, 7);
      current().beginAllocateToPool(0, pool_id(2), only(7));
      cuda().captured_stream = 7;
    }).join();
  };
  CHECK(is_refused(301));
  CHECK(!was_called("broke a capture"));
  CHECK(is_refused(302));
  CHECK(!was_called("broke a capture"));
  const size_t waits = times_called("synchronize");
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
  current().allocate(303).clear();
  CHECK(times_called("synchronize") == waits + 1);
  stand_in::vram().is_short = false;
}

// Requests that reach the library from elsewhere: CuPy, C, a thread that gives memory back.
void whoever_calls_the_library_beside_a_capture_does_not_break_it() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(2), only(7));
  cuda().captured_stream = 7;
  vram_pool* pool = nullptr;
  vram_pool_options options{};
  CHECK(vram_pool_open(0, &options, &pool) == VRAM_OK);
  (void)vram_trim(pool, 1);
  CHECK(!was_called("broke a capture"));
  set_current(2, 8);
  stand_in::vram().is_short = true;
  CHECK(is_refused(304));  // the first on this device: its pool is opened now
  stand_in::vram().is_short = false;
  CHECK(!was_called("broke a capture"));
  cuda().captured_stream = 0;
  current().endAllocateToPool(0, pool_id(2));
}

// A MemPool is used for hours, and no graph is captured: others may wait meanwhile.
void beside_a_mem_pool_the_pool_waits_as_ever() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(5), only(7));
  const size_t waits = times_called("synchronize");
  stand_in::vram().is_short = true;
  set_current(0, 8);
  current().allocate(305).clear();
  CHECK(times_called("synchronize") == waits + 1);
  stand_in::vram().is_short = false;
  current().emptyCache();
  CHECK(times_called("synchronize") > waits + 1);
  current().endAllocateToPool(0, pool_id(5));
}

// One that has waited takes nothing from those that still wait.
void threads_wait_together_beside_a_mem_pool() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(5), only(7));
  std::this_thread::sleep_for(std::chrono::milliseconds(25));  // until it is known: no capture
  stand_in::vram().is_short = true;
  bool is_other_refused = true;
  stand_in::vram().before_alloc = [&] {
    std::thread([&] {
      set_current(0, 101);
      is_other_refused = is_refused(308);
    }).join();
  };
  set_current(0, 100);
  CHECK(!is_refused(309));
  CHECK(!is_other_refused);
  stand_in::vram().is_short = false;
  current().endAllocateToPool(0, pool_id(5));
}

// Threads that wait while a MemPool is used, while captures come and go: in the end the pool knows
// of none.
void captures_are_counted_whoever_waits_meanwhile() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(5), only(7));
  stand_in::vram().is_short = true;
  std::vector<std::thread> threads;
  for (uintptr_t number = 0; number < 4; ++number) {
    threads.emplace_back([number] {
      set_current(0, 100 + number);
      for (int round = 0; round < 60; ++round) {
        const bool begins = number == 0;
        if (begins) current().beginAllocateToPool(0, pool_id(6), only(9));
        (void)is_refused(306);
        if (begins) current().endAllocateToPool(0, pool_id(6));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  current().endAllocateToPool(0, pool_id(5));
  const size_t waits = times_called("synchronize");
  set_current(0, 8);
  current().allocate(307).clear();
  CHECK(times_called("synchronize") == waits + 1);
  CHECK(times_called("begin capture") == times_called("end capture"));
  stand_in::vram().is_short = false;
}

// Its graphs may be launched at any time, and meanwhile the pool makes no stream wait.
void a_pool_that_is_opened_after_a_capture_is_told_of_it() {
  const size_t begins = times_called("begin capture");
  const size_t ends = times_called("end capture");
  set_current(3, 8);
  current().allocate(310).clear();
  CHECK(times_called("begin capture") == begins + 1);
  CHECK(times_called("end capture") == ends + 1);
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
  the_pool_is_told_of_a_capture();
  threads_go_on_beside_a_capture();
  a_capture_that_begins_during_a_request_is_not_broken();
  a_capture_that_is_about_to_begin_is_not_broken();
  whoever_calls_the_library_beside_a_capture_does_not_break_it();
  beside_a_mem_pool_the_pool_waits_as_ever();
  threads_wait_together_beside_a_mem_pool();
  captures_are_counted_whoever_waits_meanwhile();
  a_pool_that_is_opened_after_a_capture_is_told_of_it();
  if (failures == 0) std::puts("all checks hold");
  return failures;
}
