// Runs the adapter's tap (the compiled adapter is named on the command line) on the stand-in of
// PyTorch's own allocator, and checks what the stand-in of the recorder is told. Says which checks
// failed; the exit code is their number.
#include "checks.hpp"
#include "stand_ins.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <thread>

namespace {

using c10::DataPtr;
using stand_in::count;
using stand_in::cuda;
using stand_in::current;
using stand_in::Entry;
using stand_in::failures;
using stand_in::set_current;
using stand_in::trace;
using stand_in::vram;
using stand_in::was_called;
namespace torch_cuda = c10::cuda::CUDACachingAllocator;

const char* (*tap)(int);
void (*untap)();
const char* (*install)(uint64_t);
void (*uninstall)();

std::vector<vram_event> take_events() { return std::exchange(vram().events, {}); }
bool is(const vram_event& event, vram_event_kind kind, uint64_t address, uint64_t bytes) {
  return event.kind == kind && event.address == address && event.size_bytes == bytes;
}

void before_cuda_is_there_it_waits_for_it() {
  cuda().has_devices = false;
  CHECK(tap(0) == nullptr);
  CHECK(cuda().trackers.empty());
  CHECK(!was_called("claim"));  // until there is an allocator to listen to
  vram().is_recording = true;
  current().init(2);
  CHECK(was_called("claim"));
  CHECK(count("init 2") == 1);
  current().allocate(100).clear();
  CHECK(take_events().size() == 2);
  untap();
  vram().is_recording = false;
}

void nothing_is_said_while_nothing_is_recorded() {
  CHECK(tap(1) == nullptr);
  CHECK(cuda().trackers.size() == 1);
  trace(Entry::ALLOC, 0, 4096, 100);
  current().allocate(10).clear();
  CHECK(vram().events.empty());
  untap();
  CHECK(&current() == stand_in::native());
  current().allocate(10).clear();
  vram().is_recording = true;
  current().allocate(10).clear();  // by another recording, that of a pool alone
  CHECK(vram().events.empty());
}

void each_action_is_its_event() {
  CHECK(tap(0) == nullptr);
  CHECK(cuda().trackers.size() == 1);  // attached once and for all
  const Entry::Action actions[] = {
      Entry::ALLOC,        Entry::FREE_REQUESTED, Entry::FREE_COMPLETED, Entry::SEGMENT_ALLOC,
      Entry::SEGMENT_FREE, Entry::SEGMENT_MAP,    Entry::SEGMENT_UNMAP,  Entry::OOM,
      Entry::SNAPSHOT};
  const vram_event_kind kinds[] = {VRAM_EVENT_ALLOC,          VRAM_EVENT_FREE_REQUESTED,
                                   VRAM_EVENT_FREE_COMPLETED, VRAM_EVENT_SEGMENT_ALLOC,
                                   VRAM_EVENT_SEGMENT_FREE,   VRAM_EVENT_SEGMENT_MAP,
                                   VRAM_EVENT_SEGMENT_UNMAP,  VRAM_EVENT_OOM,
                                   VRAM_EVENT_SNAPSHOT};
  (void)take_events();
  for (size_t i = 0; i < std::size(actions); ++i)
    trace(actions[i], 1, 4096 * (i + 1), 1000 + i, 70 + i);
  trace(static_cast<Entry::Action>(99), 1, 1, 1);  // of a later PyTorch
  const auto events = take_events();
  CHECK(events.size() == std::size(kinds));
  for (size_t i = 0; i < std::min(events.size(), std::size(kinds)); ++i) {
    CHECK(is(events[i], kinds[i], 4096 * (i + 1), 1000 + i));
    CHECK(events[i].device == 1 && events[i].stack == 0);
    CHECK(reinterpret_cast<uintptr_t>(events[i].stream) == 70 + i);
  }
  untap();
}

void a_free_that_completes_at_once_is_one_event() {
  CHECK(tap(0) == nullptr);
  (void)take_events();
  trace(Entry::FREE_REQUESTED, 1, 0x1000, 100, 7);
  CHECK(take_events().empty());
  trace(Entry::FREE_REQUESTED, 0, 0x2000, 200);  // of another device
  trace(Entry::FREE_COMPLETED, 1, 0x1000, 100, 7);
  auto events = take_events();
  CHECK(events.size() == 1);
  CHECK(is(events.at(0), VRAM_EVENT_FREE, 0x1000, 100) && events.at(0).device == 1);
  trace(Entry::ALLOC, 0, 0x3000, 300);  // a stream uses the block: it completes later
  events = take_events();
  CHECK(events.size() == 2);
  CHECK(is(events.at(0), VRAM_EVENT_FREE_REQUESTED, 0x2000, 200));
  CHECK(is(events.at(1), VRAM_EVENT_ALLOC, 0x3000, 300));
  trace(Entry::FREE_REQUESTED, 1, 0x4000, 400);
  untap();  // which reports what waits
  events = take_events();
  CHECK(events.size() == 1 && is(events.at(0), VRAM_EVENT_FREE_REQUESTED, 0x4000, 400));
}

torch_cuda::SegmentInfo segment(int device, size_t address, bool is_expandable) {
  torch_cuda::SegmentInfo found;
  found.device = static_cast<c10::DeviceIndex>(device);
  found.address = address;
  found.total_size = 4096;
  found.stream = reinterpret_cast<void*>(uintptr_t{9});
  found.is_expandable = is_expandable;
  // Live, cached, freed but used by a stream, live and larger than its request rounds to.
  const struct {
    size_t bytes, requested;
    bool allocated, active;
  } parts[] = {{512, 500, true, true},
               {1024, 0, false, false},
               {512, 300, false, true},
               {2048, 1000, true, true}};
  for (const auto& part : parts) {
    found.blocks.emplace_back();
    found.blocks.back().size = part.bytes;
    found.blocks.back().requested_size = part.requested;
    found.blocks.back().allocated = part.allocated;
    found.blocks.back().active = part.active;
  }
  return found;
}

void what_is_there_is_said_first_and_once() {
  cuda().snapshot.segments = {segment(0, 0x10000, false), segment(1, 0x20000, true)};
  cuda().before_snapshot = [](int device) { trace(Entry::ALLOC, device, 0x10000, 500); };
  cuda().after_snapshot = [](int device) { trace(Entry::FREE_REQUESTED, device, 0x10000, 500); };
  CHECK(tap(0) == nullptr);
  const auto events = take_events();
  CHECK(events.size() == 2 * 5 + 2);
  if (events.size() == 12) {
    CHECK(is(events[0], VRAM_EVENT_SEGMENT_ALLOC, 0x10000, 4096));
    CHECK(is(events[1], VRAM_EVENT_FOUND, 0x10000, 500));
    CHECK(is(events[2], VRAM_EVENT_FOUND, 0x10600, 300));
    CHECK(is(events[3], VRAM_EVENT_FREE_REQUESTED, 0x10600, 300));
    CHECK(is(events[4], VRAM_EVENT_FOUND, 0x10800, 2048));
    CHECK(is(events[5], VRAM_EVENT_SEGMENT_MAP, 0x20000, 4096) && events[5].device == 1);
    CHECK(reinterpret_cast<uintptr_t>(events[6].stream) == 9);
    // Allocations from before the device's part of the snapshot are in it; frees after are not.
    CHECK(is(events[10], VRAM_EVENT_FREE_REQUESTED, 0x10000, 500) && events[10].device == 0);
    CHECK(is(events[11], VRAM_EVENT_FREE_REQUESTED, 0x10000, 500) && events[11].device == 1);
  }
  CHECK(tap(0) == nullptr);  // a second time says nothing again
  CHECK(take_events().empty());
  cuda().before_snapshot = cuda().after_snapshot = nullptr;
  cuda().snapshot = {};
  untap();
}

void what_is_held_at_the_end_is_said_last() {
  CHECK(tap(0) == nullptr);
  (void)take_events();
  cuda().snapshot.segments = {segment(0, 0x10000, false)};
  cuda().before_snapshot = [](int device) { trace(Entry::ALLOC, device, 0x30000, 1); };
  cuda().after_snapshot = [](int device) { trace(Entry::FREE_REQUESTED, device, 0x30000, 1); };
  untap();
  const auto events = take_events();
  CHECK(events.size() == 2 + 5);
  if (events.size() == 7) {
    CHECK(is(events[0], VRAM_EVENT_ALLOC, 0x30000, 1) && events[0].device == 0);
    CHECK(is(events[1], VRAM_EVENT_ALLOC, 0x30000, 1) && events[1].device == 1);
    CHECK(is(events[2], VRAM_EVENT_HELD_SEGMENT, 0x10000, 4096));
    CHECK(is(events[3], VRAM_EVENT_HELD_BLOCK, 0x10000, 512));
    CHECK(is(events[4], VRAM_EVENT_HELD_FREE, 0x10200, 1024));
    CHECK(is(events[5], VRAM_EVENT_HELD_PENDING, 0x10600, 512));
    CHECK(is(events[6], VRAM_EVENT_HELD_BLOCK, 0x10800, 2048));
  }
  cuda().before_snapshot = cuda().after_snapshot = nullptr;
  cuda().snapshot = {};
}

void settings_are_said_by_pytorchs_names() {
  auto& config = cuda().snapshot.config_metadata;
  config.expandable_segments = true;
  config.max_split_size = 64 << 20;
  config.garbage_collection_threshold = 0.75;
  config.last_allocator_settings = "expandable_segments:True";
  config.roundup_power2_divisions = {1, 8};
  CHECK(tap(0) == nullptr);
  CHECK(was_called("setting PYTORCH_CUDA_ALLOC_CONF = expandable_segments:True"));
  CHECK(was_called("setting expandable_segments = True"));
  CHECK(was_called("setting max_split_size = 67108864"));
  CHECK(was_called("setting garbage_collection_threshold = 0.750000"));
  CHECK(was_called("setting roundup_power2_divisions.1 = 1"));
  CHECK(was_called("setting roundup_power2_divisions.2 = 8"));
  cuda().snapshot = {};
  untap();
}

void requests_have_their_stack_and_frees_none() {
  const size_t before = vram().stacks;
  CHECK(tap(1) == nullptr);
  (void)take_events();
  DataPtr data = current().allocate(100);
  void* const raw = current().raw_alloc(200);
  trace(Entry::SEGMENT_FREE, 0, 1, 1);  // without a request
  data.clear();
  current().raw_delete(raw);
  const auto events = take_events();
  CHECK(events.size() == 5);
  CHECK(vram().stacks == before + 2);  // raw_alloc is one request, though it makes another
  CHECK(events[0].stack == before + 1 && events[1].stack == before + 2);
  for (size_t i = 2; i < events.size(); ++i) CHECK(events[i].stack == 0);
  untap();
  CHECK(&current() == stand_in::native());
  CHECK(count("recordHistory") == 0);  // a history that the program keeps is its own
  CHECK(tap(0) == nullptr);
  current().allocate(100).clear();
  CHECK(vram().stacks == before + 2);
  untap();
}

void under_the_pool_what_is_natives_is_said_too() {
  CHECK(install(0) == nullptr);
  CHECK(tap(1) == nullptr);
  CHECK(current().name() == "vram");
  (void)take_events();
  const size_t before = vram().stacks;
  set_current(0, 7);
  DataPtr pools = current().allocate(100);  // libvram.so records it itself
  CHECK(take_events().empty());
  current().beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
  DataPtr natives = current().allocate(300);
  current().endAllocateToPool(0, {0, 1});
  auto events = take_events();
  CHECK(events.size() == 1 && is(events[0], VRAM_EVENT_ALLOC, events[0].address, 300));
  CHECK(events.size() == 1 && events[0].stack == before + 1);
  uninstall();
  const DataPtr later = current().allocate(400);  // still recorded, with its stack
  events = take_events();
  CHECK(events.size() == 1 && events[0].stack == before + 2);
  untap();
  CHECK(current().name() == "native");
}

void what_cant_be_tapped_says_so() {
  cuda().backend = "cudaMallocAsync";
  const char* const why = tap(0);
  CHECK(why != nullptr &&
        std::strstr(why, "its backend 'cudaMallocAsync' does not tell") != nullptr);
  CHECK(&current() == stand_in::native());
  cuda().backend = "native";
}

void threads_are_in_one_order() {
  CHECK(tap(0) == nullptr);
  (void)take_events();
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([] {
      for (int round = 0; round < 2000; ++round) current().allocate(64).clear();
    });
  }
  for (int i = 0; i < 50; ++i) {  // recordings that begin meanwhile
    untap();
    CHECK(tap(0) == nullptr);
  }
  for (std::thread& thread : threads) thread.join();
  (void)take_events();
  current().allocate(64).clear();
  CHECK(take_events().size() == 2);
  untap();
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

int main(int, char** arguments) {
  void* const adapter = dlopen(arguments[1], RTLD_NOW);
  if (adapter == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 100;
  find(adapter, "vram_torch_tap", tap);
  find(adapter, "vram_torch_untap", untap);
  find(adapter, "vram_torch_install", install);
  find(adapter, "vram_torch_uninstall", uninstall);

  before_cuda_is_there_it_waits_for_it();
  nothing_is_said_while_nothing_is_recorded();
  each_action_is_its_event();
  a_free_that_completes_at_once_is_one_event();
  what_is_there_is_said_first_and_once();
  what_is_held_at_the_end_is_said_last();
  settings_are_said_by_pytorchs_names();
  requests_have_their_stack_and_frees_none();
  threads_are_in_one_order();
  what_cant_be_tapped_says_so();
  under_the_pool_what_is_natives_is_said_too();
  if (failures == 0) std::puts("all checks hold");
  return failures;
}
