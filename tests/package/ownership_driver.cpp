// Runs the compiled adapter (named on the command line) between the two stand-ins, and checks who
// owns a block at the edges: going back to PyTorch's allocator, switching it off and on, forks,
// peers that were enabled before, errors that are cured. Says which checks failed; the exit code is
// their number.
#include "checks.hpp"
#include "stand_ins.hpp"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

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
using stand_in::times_called;
using stand_in::was_called;

const char* (*install)(uint64_t);
void (*uninstall)();

// As torch.cuda.use_mem_pool: what stream 7 asks for comes from the native allocator.
DataPtr allocate_in_private_pool(size_t bytes) {
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(1), only(7));
  DataPtr data = current().allocate(bytes);
  current().endAllocateToPool(0, pool_id(1));
  return data;
}

// The checks of the child count there; it answers with their number.
template <class Action>
int in_child(Action action) {
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    action();
    _exit(failures);
  }
  int status = -1;
  (void)waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

// A data loader's worker or a launcher's child that then uses CUDA itself.
void a_child_forked_before_cuda_frees_native_blocks() {
  cuda().has_devices = false;
  CHECK(in_child([] {
          current().init(2);
          DataPtr natives = allocate_in_private_pool(100);
          const size_t deleted = count("raw_delete");
          natives.clear();
          CHECK(count("raw_delete") == deleted + 1);
          set_current(0, 5);
          current().allocate(200).clear();
          CHECK(was_called("alloc 200 in 5") && live_blocks(0) == 0);
        }) == 0);
  current().init(2);
}

void a_child_forked_after_cuda_forgets_native_blocks() {
  DataPtr natives = allocate_in_private_pool(100);
  CHECK(in_child([&] {
          const size_t deleted = count("raw_delete");
          current().recordStream(natives, stream(9));
          natives.clear();
          CHECK(count("raw_delete") == deleted && count("recordStream") == 0);
        }) == 0);
}

// PyTorch asks once for each pair of devices, and this was before vram came.
void peers_enabled_before_reach_the_pool() {
  CHECK(was_called("peer 0 for 1"));
  CHECK(!was_called("peer 0 for 0"));
  CHECK(!was_called("peer 0 for 2"));  // no context there: nothing was enabled
  CHECK(stand_in::get_p2p_access(1, 0) && count("enablePeerAccess") == 1);
  CHECK(stand_in::get_p2p_access(2, 0) && was_called("peer 0 for 2"));
}

void streams_are_recorded_after_going_back() {
  set_current(0, 5);
  DataPtr ours = current().allocate(128);
  DataPtr adopted = allocate_in_private_pool(129);
  uninstall();
  current().recordStream(ours, stream(9));
  CHECK(was_called("record " + text(ours.get()) + " in 9"));
  current().recordStream(adopted, stream(9));
  CHECK(count("recorded " + text(adopted.get()) + " in 9") == 1);
  const DataPtr later = current().allocate(130);
  CHECK(count("allocate 130") == 1);
  current().recordStream(later, stream(9));
  CHECK(count("recorded " + text(later.get()) + " in 9") == 1);
  const size_t live = live_blocks(0);
  ours.clear();
  CHECK(live_blocks(0) == live - 1);
  CHECK(install(0) == nullptr);
}

void after_going_back_the_pool_can_be_emptied() {
  uninstall();
  const size_t trims = times_called("trim 0");
  current().emptyCache();
  CHECK(times_called("trim 0") == trims + 1);
  CHECK(current().name() == "native");
  void* const raw = current().raw_alloc(131);
  CHECK(count("raw_alloc 131") == 1);
  current().raw_delete(raw);
  set_current(3, 0);
  const DataPtr elsewhere = current().allocate(132);  // no pool is opened for nothing
  CHECK(count("allocate 132") == 1 && live_blocks(3) == 0);
  set_current(0, 5);
  CHECK(install(0) == nullptr);
  CHECK(current().name() == "vram");
}

// torch.cuda.caching_allocator_enable.
void blocks_go_back_the_way_they_came() {
  current().enable(false);
  DataPtr uncached = current().allocate(5000);
  void* const raw_uncached = current().raw_alloc(5001);
  current().enable(true);
  DataPtr cached = allocate_in_private_pool(5002);
  current().beginAllocateToPool(0, pool_id(1), only(7));
  void* const raw_cached = current().raw_alloc(5003);
  current().endAllocateToPool(0, pool_id(1));
  CHECK(uncached.get_deleter() == cached.get_deleter());
  const size_t freed = count("cudaFree");
  uncached.clear();
  current().raw_delete(raw_uncached);
  CHECK(count("cudaFree") == freed + 2);
  current().enable(false);
  const size_t deleted = count("raw_delete");
  current().recordStream(cached, stream(9));
  CHECK(count("recorded " + text(cached.get()) + " in 9") == 1);
  cached.clear();
  current().raw_delete(raw_cached);
  CHECK(count("raw_delete") == deleted + 2);
  current().enable(true);
  CHECK(count("invalid device pointer") == 0);
  CHECK(count("cudaFree of a segment") == 0);
}

void blocks_of_a_checkpoint_go_back_to_the_cache() {
  auto delta = current().setCheckpointPoolState(0, nullptr);
  current().enable(false);
  delta.dataptrs_allocd.clear();
  current().enable(true);
  CHECK(count("cudaFree of a segment") == 0);
}

void a_cured_error_is_not_observed() {
  static int observed = 0;
  current().attachOutOfMemoryObserver([](int64_t, size_t bytes, size_t, size_t) {
    if (bytes == 4000) ++observed;
  });
  set_current(0, 7);
  current().beginAllocateToPool(0, pool_id(3), only(7));
  cuda().native_failures = 1;  // it succeeds once the pool has given memory up
  CHECK(current().allocate(4000).get() != nullptr);
  CHECK(observed == 0);
  cuda().native_failures = 2;
  bool is_thrown = false;
  try {
    (void)current().allocate(4000);
  } catch (const c10::OutOfMemoryError&) {
    is_thrown = true;
  }
  CHECK(is_thrown && observed == 1);
  cuda().captured_stream = 7;  // nothing can be given up during a capture
  cuda().native_failures = 1;
  try {
    (void)current().allocate(4000);
  } catch (const c10::OutOfMemoryError&) {
    ++observed;
  }
  CHECK(observed == 3);
  cuda().captured_stream = 0;
  cuda().native_failures = 0;
  current().endAllocateToPool(0, pool_id(3));
}

// The handle names another stream in each thread, so no order of frees can be told by it.
void the_per_thread_default_stream_is_not_the_pools() {
  set_current(0, 2);
  const DataPtr theirs = current().allocate(6000);
  CHECK(count("allocate 6000") == 1);
  set_current(0, 5);
  const DataPtr ours = current().allocate(6001);
  std::string message;
  try {
    current().recordStream(ours, stream(2));
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  }
  CHECK(message.find("record_stream") != std::string::npos);
  CHECK(message.find("the per-thread default stream") != std::string::npos);
}

// NCCL's tensor registration reads the segments from a snapshot and registers each; the pool's
// addresses may stand for other memory later.
void the_pools_ranges_are_not_offered_for_registration() {
  cuda().snapshot.segments.emplace_back();
  CHECK(current().snapshot().segments.size() > 1);
  setenv("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "1", 1);
  CHECK(current().snapshot().segments.size() == 1);
  unsetenv("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK");
  cuda().snapshot = {};
}

}  // namespace

int main(int, char** arguments) {
  void* const adapter = dlopen(arguments[1], RTLD_NOW);
  if (adapter == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 100;
  install = reinterpret_cast<const char* (*)(uint64_t)>(dlsym(adapter, "vram_torch_install"));
  uninstall = reinterpret_cast<void (*)()>(dlsym(adapter, "vram_torch_uninstall"));
  CHECK(stand_in::get_p2p_access(1, 0));
  CHECK(install(0) == nullptr);
  a_child_forked_before_cuda_frees_native_blocks();
  a_child_forked_after_cuda_forgets_native_blocks();
  set_current(0, 5);
  current().allocate(64).clear();
  peers_enabled_before_reach_the_pool();
  streams_are_recorded_after_going_back();
  after_going_back_the_pool_can_be_emptied();
  blocks_go_back_the_way_they_came();
  blocks_of_a_checkpoint_go_back_to_the_cache();
  a_cured_error_is_not_observed();
  the_per_thread_default_stream_is_not_the_pools();
  the_pools_ranges_are_not_offered_for_registration();
  if (failures == 0) std::puts("all checks hold");
  return failures;
}
