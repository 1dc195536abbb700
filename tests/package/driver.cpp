// Runs the compiled adapter (named on the command line) between the two stand-ins and checks what
// it makes of each call. Says which checks failed; the exit code is their number.
#include "checks.hpp"
#include "stand_ins.hpp"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace c10 {
namespace {

// A hook that could free memory before PyTorch runs out of it.
class Spare final : public FreeMemoryCallback {
 public:
  static inline int asked = 0;
  bool Execute() override { return ++asked, false; }
};
REGISTER_FREE_MEMORY_CALLBACK(spare, Spare)

}  // namespace
}  // namespace c10

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
using stand_in::stream;
using stand_in::text;
using stand_in::was_called;
namespace torch_cuda = c10::cuda::CUDACachingAllocator;

void an_ordinary_request_is_the_pools() {
  set_current(0, 5);
  {
    const DataPtr data = current().allocate(1000);
    CHECK(was_called("alloc 1000 in 5"));
    CHECK(stand_in::live_bytes(0) == 1000);
    CHECK(data.get() == data.get_context());
    CHECK(data.get_deleter() == current().raw_deleter());
    CHECK(data.device() == c10::Device(c10::DeviceType::CUDA, 0));
  }
  CHECK(live_blocks(0) == 0);
  CHECK(count("allocate 1000") == 0);
  set_current(1, 0);
  void* const raw = current().raw_alloc(600);
  CHECK(live_blocks(1) == 1);
  set_current(0, 0);  // freed while another device is current
  current().raw_delete(raw);
  CHECK(live_blocks(1) == 0);
}

void no_bytes_are_no_block() {
  const DataPtr data = current().allocate(0);
  CHECK(data.get() == nullptr);
  CHECK(data.device() == c10::Device(c10::DeviceType::CUDA, 0));
  CHECK(data.get_deleter() == current().raw_deleter());
  CHECK(current().raw_alloc(0) == nullptr);
  CHECK(live_blocks(0) == 0);
}

void a_private_pool_is_pytorchs() {
  current().beginAllocateToPool(0, pool_id(1), only(7));
  CHECK(count("begin") == 1);
  set_current(0, 7);
  DataPtr theirs = current().allocate(2000);
  CHECK(count("allocate 2000") == 1);
  CHECK(theirs.get_deleter() == current().raw_deleter());  // cudagraph trees compare them
  set_current(0, 8);
  const DataPtr ours = current().allocate(2001);
  CHECK(count("allocate 2001") == 0);
  set_current(1, 7);  // the filter is about device 0
  const DataPtr other_device = current().allocate(2002);
  CHECK(count("allocate 2002") == 0);
  set_current(0, 7);
  current().endAllocateToPool(0, pool_id(1));
  const DataPtr after = current().allocate(2003);
  CHECK(count("allocate 2003") == 0);

  current().recordStream(theirs, stream(9));
  CHECK(count("recordStream") == 1);
  CHECK(cuda().recorded_deleter == stand_in::native()->raw_deleter());
  const size_t deleted = count("raw_delete");
  theirs.clear();
  CHECK(count("raw_delete") == deleted + 1);
}

void out_of_memory_is_pytorchs_error() {
  size_t observed = 0;
  current().attachOutOfMemoryObserver(
      [&](int64_t, size_t bytes, size_t, size_t) { observed = bytes; });
  CHECK(count("attachOutOfMemoryObserver") == 1);
  const size_t emptied = count("emptyCache 0");
  std::string message;
  try {
    (void)current().allocate(2 << 20);
  } catch (const c10::OutOfMemoryError& error) {
    message = error.what_without_backtrace();
  }
  CHECK(message.find("CUDA out of memory. the reasons, in bytes") == 0);
  CHECK(observed == 2 << 20);
  CHECK(count("emptyCache 0") == emptied + 1);
  CHECK(c10::Spare::asked == 1);
  CHECK(current().getDeviceStats(0).num_ooms == 1);
}

void the_pool_gives_way_to_private_pools() {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(3), only(7));
  stand_in::vram().frees_on_trim = true;
  cuda().native_failures = 2;
  const DataPtr data = current().allocate(4000);
  CHECK(data.get() != nullptr);
  CHECK(was_called("trim 0"));
  CHECK(count("allocate 4000") == 2);
  current().endAllocateToPool(0, pool_id(3));
  stand_in::vram().frees_on_trim = false;
}

void streams_are_recorded_where_the_block_is() {
  set_current(0, 5);
  const DataPtr ours = current().allocate(128);
  const size_t before = count("recordStream");
  current().recordStream(ours, stream(9));
  CHECK(was_called("record " + text(ours.get()) + " in 9"));
  CHECK(count("recordStream") == before);
  int foreign = 0;
  const DataPtr theirs(&foreign, &foreign, [](void*) {}, c10::Device(c10::DeviceType::CUDA, 0));
  current().recordStream(theirs, stream(9));
  CHECK(count("recordStream") == before + 1);
}

void figures_are_sums() {
  set_current(0, 0);
  current().resetPeakStats(0);
  CHECK(was_called("reset peaks") && count("resetPeakStats") == 1);
  const DataPtr data = current().allocate(1000);
  const auto stats = current().getDeviceStats(0);
  CHECK(stats.allocated_bytes[0].current == 1100);
  CHECK(stats.allocated_bytes[1].current == 100);
  CHECK(stats.allocated_bytes[2].current == 1000);
  CHECK(stats.allocated_bytes[0].allocated == 370);
  CHECK(stats.reserved_bytes[0].current == 2 << 20);
  CHECK(stats.allocation[0].current == 1);
  size_t largest = 0;
  current().cacheInfo(0, &largest);
  CHECK(largest == (3 << 20) + (2 << 20) - 1000);
  size_t size = 0;
  CHECK(current().getBaseAllocation(static_cast<char*>(data.get()) + 10, &size) == data.get());
  CHECK(size == 1000);
}

void a_snapshot_has_both() {
  cuda().snapshot.segments.emplace_back();
  const auto all = current().snapshot();
  CHECK(all.segments.size() == 1 + 2 * 2);  // two ranges in each of two pools
  const auto& segment = all.segments[1];
  CHECK(segment.address == 4096 && segment.total_size == 1536);
  CHECK(segment.allocated_size == 1024 && segment.requested_size == 1000);
  CHECK(segment.blocks.size() == 2 && segment.blocks[0].allocated && !segment.blocks[1].allocated);
  CHECK(all.segments[2].address == 8192 && all.segments[2].blocks.size() == 1);
  CHECK(current().snapshot(pool_id(4)).segments.size() == 1);
}

void limits_hold_for_the_pool() {
  current().setMemoryFraction(0.25, 0);  // of 8 MiB
  CHECK(was_called("limit 2097152") && count("setMemoryFraction") == 1);
  current().setMemoryFraction(1.0, 0);
  CHECK(was_called("limit 0"));
}

void devices_beside_each_other() {
  set_current(0, 0);
  const DataPtr ours = current().allocate(64);
  int theirs = 0;
  current().memcpyAsync(&theirs, 1, ours.get(), 0, 4, nullptr, false);
  CHECK(count("cudaMemcpyPeerAsync") == 1 && count("memcpyAsync") == 0);
  current().memcpyAsync(&theirs, 1, ours.get(), 0, 4, nullptr, true);
  current().memcpyAsync(&theirs, 0, ours.get(), 0, 4, nullptr, false);
  current().memcpyAsync(&theirs, 1, &theirs, 0, 4, nullptr, false);
  CHECK(count("cudaMemcpyPeerAsync") == 1 && count("memcpyAsync") == 3);
  current().enablePeerAccess(1, 0);
  CHECK(was_called("peer 0 for 1") && count("enablePeerAccess") == 1);
}

void what_is_impossible_says_so() {
  const DataPtr ours = current().allocate(64);
  std::string message;
  try {
    (void)current().shareIpcHandle(ours.get());
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  }
  CHECK(message.find("can't be shared with another process") != std::string::npos);
  CHECK(count("shareIpcHandle") == 0);
  int theirs = 0;
  (void)current().shareIpcHandle(&theirs);
  CHECK(count("shareIpcHandle") == 1);
}

void checkpoints_get_the_deleter_that_pytorch_compares() {
  const auto delta = current().setCheckpointPoolState(0, nullptr);
  CHECK(delta.dataptrs_allocd.size() == 1);
  CHECK(delta.dataptrs_allocd[0].get_deleter() == current().raw_deleter());
}

void switched_off_is_native() {
  current().enable(false);
  const DataPtr theirs = current().allocate(5000);
  CHECK(count("allocate 5000") == 1);
  current().enable(true);
  const DataPtr ours = current().allocate(5001);
  CHECK(count("allocate 5001") == 0);
}

void a_device_without_a_pool_is_native() {
  stand_in::vram().missing_device = 3;
  set_current(3, 0);
  const DataPtr data = current().allocate(6000);
  CHECK(count("allocate 6000") == 1);
  set_current(0, 0);
}

void a_fork_forgets() {
  const DataPtr data = current().allocate(64);
  const pid_t child = fork();
  if (child == 0) {
    try {
      current().raw_delete(data.get());
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 1;
  (void)waitpid(child, &status, 0);
  CHECK(status == 0);
}

void threads_may_do_all_of_it() {
  const size_t live = live_blocks(0);
  std::vector<std::thread> threads;
  for (uintptr_t number = 0; number < 4; ++number) {
    threads.emplace_back([number] {
      set_current(0, 100 + number);
      for (int round = 0; round < 2000; ++round) {
        if (round % 100 == 50)
          current().beginAllocateToPool(0, pool_id(100 + number), only(100 + number));
        const DataPtr data = current().allocate(64);
        const bool is_ours = round % 100 < 50;
        if (is_ours !=
            (live_blocks(0) > 0 && reinterpret_cast<uintptr_t>(data.get()) >= uintptr_t{1} << 40 &&
             reinterpret_cast<uintptr_t>(data.get()) < uintptr_t{5} << 40)) {
          std::fprintf(stderr, "thread %d, round %d: the wrong allocator\n",
                       static_cast<int>(number), round);
          std::_Exit(1);
        }
        if (round % 100 == 99) current().endAllocateToPool(0, pool_id(100 + number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(live_blocks(0) == live);
}

}  // namespace

int main(int, char** arguments) {
  void* const adapter = dlopen(arguments[1], RTLD_NOW);
  if (adapter == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 100;
  const auto install =
      reinterpret_cast<const char* (*)(uint64_t)>(dlsym(adapter, "vram_torch_install"));
  const auto uninstall = reinterpret_cast<void (*)()>(dlsym(adapter, "vram_torch_uninstall"));

  DataPtr earlier = current().allocate(10);
  CHECK(install(0) == nullptr);
  CHECK(current().name() == "vram");
  CHECK(c10::GetAllocator(c10::DeviceType::CUDA) == &current());
  earlier.clear();
  CHECK(count("raw_delete") == 1);

  an_ordinary_request_is_the_pools();
  no_bytes_are_no_block();
  a_private_pool_is_pytorchs();
  out_of_memory_is_pytorchs_error();
  the_pool_gives_way_to_private_pools();
  streams_are_recorded_where_the_block_is();
  figures_are_sums();
  a_snapshot_has_both();
  limits_hold_for_the_pool();
  devices_beside_each_other();
  what_is_impossible_says_so();
  checkpoints_get_the_deleter_that_pytorch_compares();
  switched_off_is_native();
  a_device_without_a_pool_is_native();
  a_fork_forgets();
  threads_may_do_all_of_it();

  DataPtr ours = current().allocate(64);
  uninstall();
  CHECK(current().name() == "native");
  CHECK(c10::GetAllocator(c10::DeviceType::CUDA) == &current());
  const size_t live = live_blocks(0);
  ours.clear();
  CHECK(live_blocks(0) == live - 1);
  CHECK(install(4096) == nullptr);
  CHECK(current().name() == "vram" && was_called("limit 4096"));
  if (failures == 0) std::puts("all checks hold");
  return failures;
}
