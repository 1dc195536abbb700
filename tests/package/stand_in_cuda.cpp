// Stands for PyTorch's libc10_cuda.so (2.13) and the CUDA runtime below it: current device and
// stream of a thread, and a native allocator over malloc that notes what it is asked.
#include "stand_ins.hpp"

#include <algorithm>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdlib>
#include <set>
#include <utility>

namespace {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;
using c10::cuda::CUDAStream;

thread_local DeviceIndex current_device_index = 0;
thread_local uintptr_t current_stream = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

void note(const std::string& call) {
  const std::lock_guard<std::mutex> lock(stand_in::cuda().mutex);
  stand_in::cuda().calls.push_back(call);
}

// Of the blocks that are out, those from the cache; the others are from cudaMalloc.
std::set<void*> cached_blocks;

// Into the cache: PyTorch's "local_raw_delete". The real one raises where the cache does not know
// the block, which ends the process, as deleters must not.
void drop(void* address) {
  if (address == nullptr) return;
  note("raw_delete");
  const auto traced = reinterpret_cast<size_t>(address);
  const std::lock_guard<std::recursive_mutex> lock(stand_in::cuda().allocator_lock);
  if (cached_blocks.erase(address) == 0) return note("invalid device pointer");
  stand_in::trace(stand_in::Entry::FREE_REQUESTED, current_device_index, traced, 0);
  stand_in::trace(stand_in::Entry::FREE_COMPLETED, current_device_index, traced, 0);
  std::free(address);
}

// To the driver: PyTorch's "uncached_delete". Given a block of the cache, the real one frees the
// segment, with all other blocks in it.
void drop_uncached(void* address) {
  if (address == nullptr) return;
  const std::lock_guard<std::recursive_mutex> lock(stand_in::cuda().allocator_lock);
  if (cached_blocks.count(address) != 0) return note("cudaFree of a segment");
  note("cudaFree");
  std::free(address);
}

// PyTorch's own allocator: every pure virtual function of 2.13's CUDAAllocator. What it makes of a
// pointer depends on whether it is switched on at that moment, as in PyTorch.
class Native final : public torch_cuda::CUDAAllocator {
 public:
  DataPtr allocate(size_t bytes) override {
    note("allocate " + std::to_string(bytes));
    return take(bytes);
  }
  void* raw_alloc(size_t bytes) override { return raw_alloc_with_stream(bytes, nullptr); }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t) override {
    note("raw_alloc " + std::to_string(bytes));
    return take(bytes).release_context();
  }
  void raw_delete(void* address) override { (*raw_deleter())(address); }
  c10::DeleterFnPtr raw_deleter() const override { return isEnabled() ? &drop : &drop_uncached; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  void init(int devices) override {
    note("init " + std::to_string(devices));
    stand_in::cuda().has_devices = true;
  }
  bool initialized() override { return stand_in::cuda().has_devices; }
  double getMemoryFraction(DeviceIndex) override { return 0.5; }
  void setMemoryFraction(double, DeviceIndex) override { note("setMemoryFraction"); }
  std::vector<torch_cuda::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override {
    return {};
  }
  void enable(bool value) override {
    note(value ? "enable" : "disable");
    stand_in::cuda().is_caching = value;
  }
  bool isEnabled() const override { return stand_in::cuda().is_caching; }
  void emptyCache(MempoolId_t id) override { note("emptyCache " + std::to_string(id.second)); }
  void cacheInfo(DeviceIndex, size_t* largest) override { *largest = 1 << 10; }
  void* getBaseAllocation(void* address, size_t*) override {
    return note("getBaseAllocation"), address;
  }
  // Like the real one it skips, without a word, what does not carry its own deleter.
  void recordStream(const DataPtr& data, CUDAStream stream) override {
    note("recordStream");
    stand_in::cuda().recorded_deleter = data.get_deleter();
    if (data.get_deleter() != &drop) return;
    note("recorded " + std::to_string(reinterpret_cast<uintptr_t>(data.get())) + " in " +
         std::to_string(reinterpret_cast<uintptr_t>(stream.stream())));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (const size_t type : {0, 1})
      stats.allocated_bytes[type] = {.current = 100, .peak = 200, .allocated = 300, .freed = 200};
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex) override { note("resetAccumulatedStats"); }
  void resetPeakStats(DeviceIndex) override { note("resetPeakStats"); }
  torch_cuda::SnapshotInfo snapshot(MempoolId_t, bool) override {
    stand_in::Cuda& cuda = stand_in::cuda();
    for (const int device : {0, 1}) {
      const std::lock_guard<std::recursive_mutex> lock(cuda.allocator_lock);
      if (cuda.before_snapshot) cuda.before_snapshot(device);
      stand_in::trace(stand_in::Entry::SNAPSHOT, 0, 0, 0);  // never another device
      if (cuda.after_snapshot) cuda.after_snapshot(device);
    }
    return cuda.snapshot;
  }
  void beginAllocateToPool(DeviceIndex, MempoolId_t, std::function<bool(cudaStream_t)>) override {
    note("begin");
  }
  void endAllocateToPool(DeviceIndex, MempoolId_t) override { note("end"); }
  void releasePool(DeviceIndex, MempoolId_t) override { note("releasePool"); }
  torch_cuda::ShareableHandle shareIpcHandle(void*) override {
    return note("shareIpcHandle"), torch_cuda::ShareableHandle{};
  }
  std::shared_ptr<void> getIpcDevPtr(std::string) override { return nullptr; }
  void recordHistory(bool, torch_cuda::CreateContextFn, size_t, torch_cuda::RecordContext, bool,
                     const std::vector<std::string>&) override {
    note("recordHistory");
  }
  void attachOutOfMemoryObserver(torch_cuda::OutOfMemoryObserver observer) override {
    note("attachOutOfMemoryObserver");
    observers().push_back(std::move(observer));
  }
  void attachOomRejectionObserver(torch_cuda::OomRejectionObserver) override {}
  void attachAllocatorTraceTracker(torch_cuda::AllocatorTraceTracker tracker) override {
    TORCH_CHECK(stand_in::cuda().can_be_traced, "no trackers here");
    if (stand_in::cuda().has_devices) stand_in::cuda().trackers.push_back(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex device, DeviceIndex) override {
    note("enablePeerAccess");
    stand_in::cuda().contexts.insert(device);
  }
  cudaError_t memcpyAsync(void*, int, const void*, int, size_t, cudaStream_t, bool) override {
    return note("memcpyAsync"), cudaSuccess;
  }
  std::shared_ptr<torch_cuda::AllocatorState> getCheckpointState(DeviceIndex,
                                                                 MempoolId_t) override {
    return nullptr;
  }
  torch_cuda::CheckpointDelta setCheckpointPoolState(
      DeviceIndex, std::shared_ptr<torch_cuda::AllocatorState>) override {
    torch_cuda::CheckpointDelta delta;
    delta.dataptrs_allocd.push_back(take(64));
    return delta;
  }
  std::string name() override { return stand_in::cuda().backend; }

 private:
  static std::vector<torch_cuda::OutOfMemoryObserver>& observers() {
    static std::vector<torch_cuda::OutOfMemoryObserver> all;
    return all;
  }
  // Observers are called before it throws, and without its lock.
  static void fail_if_told_to(size_t bytes) {
    if (stand_in::cuda().native_failures == 0) return;
    --stand_in::cuda().native_failures;
    for (const auto& observer : observers()) observer(current_device_index, bytes, 8 << 20, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory (native)");
  }
  static DataPtr take(size_t bytes) {
    fail_if_told_to(bytes);
    const std::lock_guard<std::recursive_mutex> lock(stand_in::cuda().allocator_lock);
    void* const block = std::malloc(std::max<size_t>(bytes, 1));
    const c10::Device device(c10::DeviceType::CUDA, current_device_index);
    if (!stand_in::cuda().is_caching) return {block, block, &drop_uncached, device};
    cached_blocks.insert(block);
    stand_in::trace(stand_in::Entry::ALLOC, current_device_index, reinterpret_cast<size_t>(block),
                    bytes, current_stream);
    return {block, block, &drop, device};
  }
};

Native only_native;
const bool is_registered = [] {
  torch_cuda::allocator.store(&only_native);
  c10::SetAllocator(c10::DeviceType::CUDA, &only_native);
  return true;
}();

}  // namespace

namespace stand_in {

Cuda& cuda() {
  static Cuda only;
  return only;
}

void trace(Entry::Action action, int device, size_t address, size_t bytes, uintptr_t stream) {
  const Entry entry(action, static_cast<DeviceIndex>(device), address, bytes,
                    reinterpret_cast<void*>(stream), {0, 0}, 0);
  for (const auto& tracker : cuda().trackers) tracker(entry);
}

void set_current(int device, uintptr_t stream) {
  current_device_index = static_cast<DeviceIndex>(device);
  current_stream = stream;
}

size_t count(const std::string& call) {
  const std::lock_guard<std::mutex> lock(cuda().mutex);
  return static_cast<size_t>(std::count(cuda().calls.begin(), cuda().calls.end(), call));
}

torch_cuda::CUDAAllocator* native() { return &only_native; }

// c10/cuda/PeerToPeerAccess.cpp: the first question about a pair enables it, the answer is kept.
bool get_p2p_access(int device, int owner) {
  static std::set<std::pair<int, int>> known;
  if (known.insert({device, owner}).second)
    torch_cuda::get()->enablePeerAccess(static_cast<DeviceIndex>(device),
                                        static_cast<DeviceIndex>(owner));
  return true;
}

}  // namespace stand_in

namespace c10 {
C10_DEFINE_REGISTRY(FreeCudaMemoryCallbacksRegistry, FreeMemoryCallback)
}

namespace c10::cuda {

namespace CUDACachingAllocator {
std::atomic<CUDAAllocator*> allocator;
}

DeviceIndex current_device() { return current_device_index; }
cudaError_t GetDevice(DeviceIndex* device) { return *device = current_device_index, cudaSuccess; }
DeviceIndex device_count() noexcept { return 4; }
bool hasPrimaryContext(DeviceIndex device) { return stand_in::cuda().contexts.count(device) != 0; }
void SetTargetDevice() {}
DeviceIndex ExchangeDevice(DeviceIndex device) {
  return std::exchange(current_device_index, device);
}
CUDAStream getCurrentCUDAStream(DeviceIndex device) {
  return CUDAStream(Stream(Stream::UNSAFE, Device(DeviceType::CUDA, device),
                           static_cast<StreamId>(current_stream)));
}
cudaStream_t CUDAStream::stream() const { return reinterpret_cast<cudaStream_t>(id()); }
void c10_cuda_check_implementation(int32_t error, const char*, const char*, uint32_t, bool) {
  TORCH_CHECK(error == 0, "CUDA error ", error);
}

}  // namespace c10::cuda

extern "C" {

// For programs that have only C: a request as any of PyTorch's.
void* stand_in_allocate(size_t bytes) { return c10::cuda::CUDACachingAllocator::raw_alloc(bytes); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return *free = 3 << 20, *total = 8 << 20, cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void*, int, const void*, int, size_t, cudaStream_t) {
  return note("cudaMemcpyPeerAsync"), cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const bool is_it = reinterpret_cast<uintptr_t>(stream) == stand_in::cuda().captured_stream;
  *status = is_it ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  const std::lock_guard<std::mutex> lock(stand_in::cuda().mutex);
  if (capture_mode == cudaStreamCaptureModeRelaxed) ++stand_in::cuda().relaxed;
  return cudaSuccess;
}

}  // extern "C"
