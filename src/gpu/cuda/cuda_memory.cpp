#include "gpu/cuda/cuda_memory.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "gpu/cuda/driver.hpp"

#include <array>
#include <utility>

namespace vram::gpu::cuda {
namespace {

// Of devices that don't say theirs, having no virtual memory management.
constexpr uint64_t kDefaultGranularityBytes = 2 * kMiB;

uint64_t now_ns() { return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC)); }

}  // namespace

EventHandle EventStock::take() {
  const std::scoped_lock lock(slots_mutex_);
  if (idle_.empty()) return 0;
  const uint32_t index = idle_.back();
  idle_.pop_back();
  slots_[index].in_use = true;
  return handle_of(index, slots_[index]);
}

EventHandle EventStock::add(CUevent event, bool serves_once) {
  const std::scoped_lock lock(slots_mutex_);
  if (empty_.empty()) {
    slots_.emplace_back();
    idle_.reserve(slots_.capacity());
    empty_.reserve(slots_.capacity());
    empty_.push_back(static_cast<uint32_t>(slots_.size() - 1));
  }
  const uint32_t index = empty_.back();
  empty_.pop_back();
  slots_[index].event = event;
  slots_[index].in_use = true;
  slots_[index].serves_once = serves_once;
  return handle_of(index, slots_[index]);
}

bool EventStock::serves_once(EventHandle handle) const {
  const std::scoped_lock lock(slots_mutex_);
  const Slot* const slot = slot_of(handle);
  return slot != nullptr && slot->serves_once;
}

CUevent EventStock::find(EventHandle handle) const {
  const std::scoped_lock lock(slots_mutex_);
  const Slot* const slot = slot_of(handle);
  return slot == nullptr ? nullptr : slot->event;
}

bool EventStock::give_back(EventHandle handle) {
  const std::scoped_lock lock(slots_mutex_);
  if (slot_of(handle) == nullptr) return false;
  idle_.push_back(end_use(handle));
  return true;
}

CUevent EventStock::take_out(EventHandle handle) {
  const std::scoped_lock lock(slots_mutex_);
  if (slot_of(handle) == nullptr) return nullptr;
  const uint32_t index = end_use(handle);
  empty_.push_back(index);
  return std::exchange(slots_[index].event, nullptr);
}

uint32_t EventStock::end_use(EventHandle handle) {
  const auto index = static_cast<uint32_t>(handle);
  Slot& slot = slots_[index];
  slot.in_use = false;
  if (++slot.generation == 0) slot.generation = 1;  // a handle is never 0
  return index;
}

std::vector<CUevent> EventStock::drain() {
  const std::scoped_lock lock(slots_mutex_);
  std::vector<CUevent> events;
  for (const Slot& slot : slots_) {
    if (slot.event != nullptr) events.push_back(slot.event);
  }
  slots_.clear();
  idle_.clear();
  empty_.clear();
  return events;
}

const EventStock::Slot* EventStock::slot_of(EventHandle handle) const {
  const auto index = static_cast<uint32_t>(handle);
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.in_use && handle_of(index, slot) == handle ? &slot : nullptr;
}

Result<std::unique_ptr<CudaMemory>> CudaMemory::open(const DriverApi& driver, uint32_t ordinal) {
  int count = 0;
  CUdevice device = 0;
  CUresult result = driver.device_get_count(&count);
  if (result == kSuccess && ordinal >= static_cast<uint32_t>(count)) {
    return fail(Code::kNotFound,
                "expected a device below {}, the number of CUDA devices this process sees, found "
                "{}: choose another, or see CUDA_VISIBLE_DEVICES",
                count, ordinal);
  }
  if (result == kSuccess) result = driver.device_get(&device, static_cast<int>(ordinal));
  // Not make_unique: the constructor is private.
  std::unique_ptr<CudaMemory> memory(new CudaMemory(driver, ordinal, device));
  memory->device_count_ = static_cast<uint32_t>(count);
  if (result == kSuccess) result = memory->start();
  if (result != kSuccess) {
    return fail(Code::kUnsupported,
                "expected CUDA device {} to start, found that the driver answers {}: see with "
                "nvidia-smi whether it is healthy, and not full or held by another process",
                ordinal, driver.name_of(result));
  }
  return memory;
}

CUresult CudaMemory::start() {
  const CUresult result = driver_.device_primary_ctx_retain(&context_, device_);
  if (result != kSuccess) {
    context_ = nullptr;
    return result;
  }
  granularity_bytes_ = kDefaultGranularityBytes;
  is_virtual_ = has(kVirtualMemoryManagementSupported);
  if (!is_virtual_) return kSuccess;
  is_rdma_capable_ = has(kGpuDirectRdmaWithVmmSupported);
  const CUmemAllocationProp prop = allocation();
  size_t bytes = 0;
  const CUresult queried =
      driver_.mem_get_allocation_granularity(&bytes, &prop, kGranularityMinimum);
  if (queried == kSuccess) granularity_bytes_ = bytes;
  return queried;
}

CudaMemory::~CudaMemory() {
  if (context_ == nullptr) return;
  {
    const CurrentContext current(driver_, context_);
    for (const CUevent event : events_.drain()) (void)driver_.event_destroy(event);
  }
  (void)driver_.device_primary_ctx_release(device_);
}

bool CudaMemory::has(CUattribute attribute) const {
  int value = 0;
  return driver_.device_get_attribute(&value, attribute, device_) == kSuccess && value != 0;
}

CUmemAllocationProp CudaMemory::allocation() const {
  CUmemAllocationProp prop;
  prop.location.id = device_;
  prop.flags.gpu_direct_rdma_capable = is_rdma_capable_ ? 1 : 0;
  return prop;
}

template <typename Call>
Status CudaMemory::run(Call call) {
  if (is_lost_.load(std::memory_order_relaxed)) return Status::kFault;
  const CurrentContext current(driver_, context_);
  if (current.result() != kSuccess) return judge(current.result());
  const RelaxedCapture relaxed(driver_);
  return judge(call());
}

template <typename Call>
Status CudaMemory::run_for_memory(Call call) {
  const uint64_t start_ns = now_ns();
  const Status status = run(call);
  time_ns_.fetch_add(now_ns() - start_ns, std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_relaxed);
  return status;
}

template <typename Call>
Status CudaMemory::run_virtual(Call call) {
  return is_virtual_ ? run_for_memory(call) : Status::kNotSupported;
}

Status CudaMemory::judge(CUresult result) {
  if (is_device_lost(result)) is_lost_.store(true, std::memory_order_relaxed);
  const Status status = status_of(result);
  const bool is_failure = status != Status::kOk && status != Status::kNotReady;
  if (is_failure) last_failure_.store(result, std::memory_order_relaxed);
  return status;
}

bool CudaMemory::supports_peer(uint32_t device) const {
  if (device == ordinal_) return true;
  CUdevice peer = 0;
  int can = 0;
  return device < device_count_ && device < kMaxDevices &&
         driver_.device_get(&peer, static_cast<int>(device)) == kSuccess &&
         driver_.device_can_access_peer(&can, peer, device_) == kSuccess && can != 0;
}

Status CudaMemory::allow_peer(uint32_t device) {
  if (device >= device_count_) return Status::kInvalidValue;
  if (!supports_peer(device)) return Status::kNotSupported;
  if (device != ordinal_) peers_.fetch_or(uint64_t{1} << device);
  return Status::kOk;
}

Status CudaMemory::memory_info(uint32_t device, MemoryInfo* info) {
  if (device != ordinal_) return Status::kInvalidValue;
  size_t free = 0;
  size_t total = 0;
  const Status status = run([&] { return driver_.mem_get_info(&free, &total); });
  if (status == Status::kOk) *info = {.free_bytes = free, .total_bytes = total};
  return status;
}

Status CudaMemory::alloc_segment(uint32_t device, uint64_t bytes, Address* address) {
  if (device != ordinal_) return Status::kInvalidValue;
  CUdeviceptr got = 0;
  const Status status = run_for_memory([&] { return driver_.mem_alloc(&got, bytes); });
  if (status == Status::kOk) *address = got;
  return status;
}

Status CudaMemory::free_segment(uint32_t device, Address address) {
  // The driver takes 0 for nothing to do; here it is no segment.
  if (device != ordinal_ || address == 0) return Status::kInvalidValue;
  return run_for_memory([&] { return driver_.mem_free(address); });
}

Status CudaMemory::reserve(uint64_t bytes, Address* address) {
  if (!is_virtual_) return Status::kNotSupported;
  CUdeviceptr got = 0;
  const Status status = run([&] { return driver_.mem_address_reserve(&got, bytes, 0, 0, 0); });
  if (status == Status::kOk) *address = got;
  return status;
}

Status CudaMemory::unreserve(Address address, uint64_t bytes) {
  if (!is_virtual_) return Status::kNotSupported;
  return run([&] { return driver_.mem_address_free(address, bytes); });
}

Status CudaMemory::create(uint32_t device, uint64_t bytes, Handle* handle) {
  if (device != ordinal_) return Status::kInvalidValue;
  const CUmemAllocationProp prop = allocation();
  CUmemHandle got = 0;
  const Status status = run_virtual([&] { return driver_.mem_create(&got, bytes, &prop, 0); });
  if (status == Status::kOk) *handle = got;
  return status;
}

Status CudaMemory::release(Handle handle) {
  return run_virtual([&] { return driver_.mem_release(handle); });
}

Status CudaMemory::map(Address address, uint64_t bytes, Handle handle) {
  return run_virtual([&] { return driver_.mem_map(address, bytes, 0, handle, 0); });
}

Status CudaMemory::set_access(Address address, uint64_t bytes, uint32_t device) {
  if (device != ordinal_) return Status::kInvalidValue;
  return run_virtual([&] { return open_to_devices(address, bytes); });
}

CUresult CudaMemory::open_to_devices(Address address, uint64_t bytes) const {
  std::array<CUmemAccessDesc, kMaxDevices + 1> accesses;
  size_t count = 0;
  accesses[count++].location.id = device_;
  const uint64_t peers = peers_.load();
  for (uint32_t peer = 0; peers >> peer != 0; ++peer) {
    // A device's number is its ordinal.
    if ((peers >> peer & 1) != 0) accesses[count++].location.id = static_cast<int>(peer);
    if (peer + 1 == kMaxDevices) break;
  }
  return driver_.mem_set_access(address, bytes, accesses.data(), count);
}

Status CudaMemory::unmap(Address address, uint64_t bytes) {
  return run_virtual([&] { return driver_.mem_unmap(address, bytes); });
}

// A captured stream would take an event or a wait into its graph, where it means nothing to us.
CUresult CudaMemory::refuse_captured(CUstream stream) const {
  CUcaptureStatus status = kCaptureNone;
  const CUresult result = driver_.stream_is_capturing(stream, &status);
  if (result != kSuccess) return result;
  return status == kCaptureNone ? kSuccess : kErrorNotReady;
}

CUresult CudaMemory::take_event(EventHandle* event) {
  *event = events_.take();
  if (*event != 0) return kSuccess;
  CUevent made = nullptr;
  const CUresult result = driver_.event_create(&made, kEventDisableTiming);
  if (result == kSuccess) *event = events_.add(made);
  return result;
}

// Events are recorded in streams of their own context, and the stream may be of another device, as
// one that copies memory of this one: it takes an event of that device.
CUresult CudaMemory::record_elsewhere(CUstream stream, EventHandle* event) {
  CUcontext context = nullptr;
  CUresult result = driver_.stream_get_ctx(stream, &context);
  if (result != kSuccess) return result;
  const CurrentContext current(driver_, context);
  if (current.result() != kSuccess) return current.result();
  CUevent made = nullptr;
  result = driver_.event_create(&made, kEventDisableTiming);
  if (result != kSuccess) return result;
  result = driver_.event_record(made, stream);
  if (result == kSuccess)
    *event = events_.add(made, true);
  else
    (void)driver_.event_destroy(made);
  return result;
}

Status CudaMemory::record(uint32_t device, StreamHandle stream, EventHandle* event) {
  if (device != ordinal_) return Status::kInvalidValue;
  return run([&] {
    CUresult result = refuse_captured(as_stream(stream));
    if (result != kSuccess) return result;
    EventHandle taken = 0;
    result = take_event(&taken);
    if (result != kSuccess) return result;
    result = driver_.event_record(events_.find(taken), as_stream(stream));
    if (result != kSuccess) (void)events_.give_back(taken);
    if (result == kErrorInvalidHandle) result = record_elsewhere(as_stream(stream), &taken);
    if (result != kSuccess) return result;
    // A capture may have begun in between: then the event is the graph's, and never happens.
    result = refuse_captured(as_stream(stream));
    if (result != kSuccess) {
      (void)discard(taken);
      return result;
    }
    *event = taken;
    return result;
  });
}

// A graph's event belongs to the graph even after it was recorded again: recording and querying it
// again invalidates the capture. It may be destroyed at any time.
CUresult CudaMemory::discard(EventHandle event) {
  const CUevent found = events_.take_out(event);
  return found == nullptr ? kErrorInvalidValue : driver_.event_destroy(found);
}

Status CudaMemory::poll_event(EventHandle event, CUresult (*question)(CUevent)) {
  const CUevent found = events_.find(event);
  if (found == nullptr) return Status::kInvalidValue;
  return run([&] {
    const CUresult result = question(found);
    // Of a graph that was captured since: the driver says so where nothing else does.
    if (result == kErrorInvalidValue) (void)discard(event);
    return result;
  });
}

Status CudaMemory::query(EventHandle event) { return poll_event(event, driver_.event_query); }

Status CudaMemory::wait(EventHandle event) { return poll_event(event, driver_.event_synchronize); }

Status CudaMemory::stream_wait(uint32_t device, StreamHandle stream, EventHandle event) {
  const CUevent found = events_.find(event);
  if (device != ordinal_ || found == nullptr) return Status::kInvalidValue;
  return run([&] {
    const CUresult refused = refuse_captured(as_stream(stream));
    return refused != kSuccess ? refused : driver_.stream_wait_event(as_stream(stream), found, 0);
  });
}

Status CudaMemory::destroy(EventHandle event) {
  if (events_.serves_once(event)) return run([&] { return discard(event); });
  return events_.give_back(event) ? Status::kOk : Status::kInvalidValue;
}

Status CudaMemory::synchronize(uint32_t device) {
  if (device != ordinal_) return Status::kInvalidValue;
  // A query of the default stream reveals the captures of blocking streams only.
  return run([&] {
    const CUresult refused = refuse_captured(nullptr);
    return refused != kSuccess ? refused : driver_.ctx_synchronize();
  });
}

}  // namespace vram::gpu::cuda
