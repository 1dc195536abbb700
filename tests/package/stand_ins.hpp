// What the adapter's test knows of the two stand-ins that it runs between: PyTorch's libc10_cuda.so
// (stand_in_cuda.cpp) and libvram.so (stand_in_vram.cpp). Both note what they are asked; both can
// be told to fail.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>
#include <vram/record.h>

namespace stand_in {

// The machine, as libc10_cuda and the CUDA runtime show it.
struct Cuda {
  std::mutex mutex;
  std::vector<std::string> calls;  // of the native allocator, "name argument…"
  uintptr_t captured_stream = 0;   // the one that a graph is captured in
  int relaxed = 0;                 // how often a thread went into relaxed capture mode
  int native_failures = 0;         // so many allocations of the native allocator fail
  bool is_caching = true;          // torch.cuda.caching_allocator_enable
  std::set<int> contexts{0};       // devices that this process has a primary context on
  c10::DeleterFnPtr recorded_deleter = nullptr;  // of the last DataPtr that native recordStream got

  // What the native allocator traces, with its lock held, and shows in snapshots.
  std::recursive_mutex allocator_lock;
  bool has_devices = true;  // made by init(); trackers attached before that reach no allocator
  bool can_be_traced = true;
  std::string backend = "native";
  std::vector<c10::cuda::CUDACachingAllocator::AllocatorTraceTracker> trackers;
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot;
  std::function<void(int device)> before_snapshot;  // of each of two devices
  std::function<void(int device)> after_snapshot;
};
Cuda& cuda();
using Entry = c10::cuda::CUDACachingAllocator::TraceEntry;
void trace(Entry::Action action, int device, size_t address, size_t bytes, uintptr_t stream = 0);
void set_current(int device, uintptr_t stream);  // of this thread
size_t count(const std::string& call);           // how often the native allocator got it
c10::cuda::CUDACachingAllocator::CUDAAllocator* native();
bool get_p2p_access(int device, int owner);  // as PyTorch asks before it copies between devices

// libvram.so.
struct Vram {
  std::mutex mutex;
  std::vector<std::string> calls;
  size_t capacity_bytes = 1 << 20;     // of each pool
  bool frees_on_trim = false;          // a trim doubles the capacity
  int missing_device = 63;             // has no pool
  bool is_short = false;               // requests wait for the device, or fail if the pool may not
  std::function<void()> before_alloc;  // called once, when a request has entered the library
  bool is_recording = false;
  uint32_t stacks = 0;  // captured so far; each one's number
  std::vector<vram_event> events;
};
Vram& vram();
size_t live_blocks(int device);
size_t live_bytes(int device);
bool was_called(const std::string& call);
size_t times_called(const std::string& call);

}  // namespace stand_in
