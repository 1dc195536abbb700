#include "capi/device_samples.hpp"

#include "base/threads.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/symbols.hpp"
#include "record/recorder.hpp"
#include "trace/figures.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace vram::capi {
namespace {

namespace figures = trace::figures;
using gpu::cuda::kSuccess;
using record::Recorder;

constexpr std::chrono::milliseconds kInterval{1000};
constexpr std::chrono::milliseconds kMaxWaitForFirst{250};
constexpr std::chrono::milliseconds kMaxWaitForLast{1000};

// Values of the driver's API.
constexpr int kGraphReservedNow = 2;  // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
constexpr int kPoolReservedNow = 5;   // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
constexpr int kRelaxed = 2;           // CU_STREAM_CAPTURE_MODE_RELAXED

std::string as_uuid(const gpu::cuda::CUuuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU";
  for (size_t i = 0; i < std::size(uuid.bytes); ++i) {
    const bool begins_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    if (begins_group) text += '-';
    text += kDigits[uuid.bytes[i] >> 4];
    text += kDigits[uuid.bytes[i] & 15];
  }
  return text;
}

}  // namespace

bool LoadedDriver::find() {
  int count = 0;
  if (library_ != nullptr) return get_count_(&count) == kSuccess;
  void* const library = dlopen(gpu::cuda::driver_path().c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  gpu::Symbols symbols(library);
  symbols.find("cuDeviceGetCount", get_count_);
  symbols.find_newest("cuDeviceGetUuid_v2", "cuDeviceGetUuid", get_uuid_);
  symbols.find("cuDevicePrimaryCtxGetState", get_state_);
  if (!symbols.missing().empty()) return false;
  gpu::find(library, "cuDeviceGetGraphMemAttribute", get_graph_attribute_);
  gpu::find(library, "cuDeviceGetDefaultMemPool", get_pool_);
  gpu::find(library, "cuMemPoolGetAttribute", get_pool_attribute_);
  gpu::find(library, "cuThreadExchangeStreamCaptureMode", exchange_capture_mode_);
  library_ = library;
  return get_count_(&count) == kSuccess;
}

int LoadedDriver::device_count() const {
  int count = 0;
  return get_count_(&count) == kSuccess ? count : 0;
}

// CUDA numbers the handles of devices as it does the devices.
std::string LoadedDriver::uuid(int ordinal) const {
  gpu::cuda::CUuuid uuid;
  return get_uuid_(&uuid, ordinal) == kSuccess ? as_uuid(uuid) : "";
}

bool LoadedDriver::has_context(int ordinal) const {
  unsigned flags = 0;
  int is_active = 0;
  return get_state_(ordinal, &flags, &is_active) == kSuccess && is_active != 0;
}

std::optional<uint64_t> LoadedDriver::graph_bytes(int ordinal) const {
  uint64_t bytes = 0;
  if (get_graph_attribute_ == nullptr ||
      get_graph_attribute_(ordinal, kGraphReservedNow, &bytes) != kSuccess)
    return std::nullopt;
  return bytes;
}

// The calling thread's captures are its own, but in CUDA's default mode those of other threads
// would be invalidated by some calls of any thread.
std::optional<uint64_t> LoadedDriver::default_pool_bytes(int ordinal) const {
  if (get_pool_ == nullptr || get_pool_attribute_ == nullptr || exchange_capture_mode_ == nullptr)
    return std::nullopt;
  int mode = kRelaxed;
  if (exchange_capture_mode_(&mode) != kSuccess) return std::nullopt;
  void* pool = nullptr;
  uint64_t bytes = 0;
  const bool is_known = get_pool_(&pool, ordinal) == kSuccess &&
                        get_pool_attribute_(pool, kPoolReservedNow, &bytes) == kSuccess;
  (void)exchange_capture_mode_(&mode);
  return is_known ? std::optional(bytes) : std::nullopt;
}

ProcessShares shares_of(const gpu::DeviceSample& sample, uint32_t pid) {
  ProcessShares shares;
  if (!sample.processes) return shares;
  uint64_t others = 0;
  bool are_all_known = true;
  for (const gpu::DeviceProcess& process : *sample.processes) {
    if (process.pid == pid) {
      if (process.used_bytes) shares.own_bytes = shares.own_bytes.value_or(0) + *process.used_bytes;
    } else {
      are_all_known = are_all_known && process.used_bytes.has_value();
      others += process.used_bytes.value_or(0);
    }
  }
  if (shares.own_bytes && are_all_known) shares.others_bytes = others;
  return shares;
}

// What the thread uses; the rest of the process sees the members under the lock only.
struct DeviceSamples::Shared {
  explicit Shared(pid_t of) : owner(of) {}

  void run();
  void take_samples(const gpu::nvml::Nvml& nvml);
  void record(int ordinal, const std::string& uuid, const gpu::DeviceSample& sample);
  void record_changed(int ordinal, std::string_view name, std::optional<uint64_t> value);

  const pid_t owner;
  std::mutex lock;
  std::condition_variable changed;
  bool is_asked = false;
  bool is_ending = false;
  bool has_first = false;
  std::optional<DetachableThread> thread;

  LoadedDriver driver;
  std::map<std::string, uint32_t> places;  // NVML's numbers, by UUID
  std::map<std::string, uint64_t> before;  // used when there was no context, by UUID
  std::map<std::pair<int, std::string_view>, uint64_t> last;
};

void DeviceSamples::Shared::run() {
  auto nvml = gpu::nvml::Nvml::open(gpu::nvml::Nvml::library());
  // The library's own end comes at the end of the process, after what is registered from here on.
  static std::atomic<pid_t> ends_with{0};
  if (ends_with.exchange(owner) != owner) (void)std::atexit([] { DeviceSamples::get().stop(); });
  const uint32_t count = nvml ? nvml->device_count().value_or(0) : 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (auto uuid = nvml->identity(i).uuid) places.emplace(*std::move(uuid), i);
  }
  std::unique_lock guard(lock);
  for (bool is_last = places.empty(); !places.empty();) {
    is_last = is_ending;  // the last sample is one that begins after the end was asked for
    is_asked = false;
    guard.unlock();
    take_samples(*nvml);
    guard.lock();
    has_first = true;
    changed.notify_all();
    if (is_last) return;
    changed.wait_for(guard, kInterval, [this] { return is_asked || is_ending; });
  }
  has_first = true;
  changed.notify_all();
}

void DeviceSamples::Shared::take_samples(const gpu::nvml::Nvml& nvml) {
  bool has_context = false;
  const int count = driver.find() ? driver.device_count() : 0;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::string uuid = driver.uuid(ordinal);
    const auto place = places.find(uuid);
    if (place == places.end() || !driver.has_context(ordinal)) continue;
    has_context = true;
    const gpu::DeviceSample sample = nvml.sample(place->second);
    if (sample.memory.used_bytes) record(ordinal, uuid, sample);
  }
  // Once the process has chosen its devices, the others are of no interest.
  if (has_context) return;
  for (const auto& [uuid, place] : places) {
    if (const auto bytes = nvml.sample(place).memory.used_bytes) before[uuid] = *bytes;
  }
}

void DeviceSamples::Shared::record(int ordinal, const std::string& uuid,
                                   const gpu::DeviceSample& sample) {
  const auto idle = before.find(uuid);
  const ProcessShares shares = shares_of(sample, static_cast<uint32_t>(owner));
  record_changed(ordinal, figures::kTotal, sample.memory.total_bytes);
  record_changed(ordinal, figures::kDriver, sample.memory.reserved_bytes);
  if (idle != before.end()) record_changed(ordinal, figures::kUsedBefore, idle->second);
  record_changed(ordinal, figures::kProcess, shares.own_bytes);
  record_changed(ordinal, figures::kOthers, shares.others_bytes);
  record_changed(ordinal, figures::kGraphs, driver.graph_bytes(ordinal));
  record_changed(ordinal, figures::kDefaultPool, driver.default_pool_bytes(ordinal));
  Recorder::figure(static_cast<uint16_t>(ordinal), figures::kUsed, *sample.memory.used_bytes);
}

void DeviceSamples::Shared::record_changed(int ordinal, std::string_view name,
                                           std::optional<uint64_t> value) {
  const auto found = last.find({ordinal, name});
  if (!value && found == last.end()) return;
  const uint64_t now = value.value_or(figures::kUnknown);
  if (found != last.end() && found->second == now) return;
  last[{ordinal, name}] = now;
  Recorder::figure(static_cast<uint16_t>(ordinal), name, now);
}

DeviceSamples& DeviceSamples::get() {
  static DeviceSamples& one = *new DeviceSamples;
  return one;
}

std::shared_ptr<DeviceSamples::Shared> DeviceSamples::begin() {
  const std::lock_guard guard(lock_);
  if (running_ != nullptr && running_->owner == getpid()) return nullptr;
  // In a fork, the thread is the parent's, and so is what it may have locked.
  if (running_ != nullptr) (void)new std::shared_ptr<Shared>(std::move(running_));
  const auto shared = std::make_shared<Shared>(getpid());
  auto thread = DetachableThread::start_in_background([shared] { shared->run(); });
  if (!thread) return nullptr;  // the recording is complete without samples
  shared->thread.emplace(*std::move(thread));
  seen_.store(0, std::memory_order_relaxed);
  return running_ = shared;
}

void DeviceSamples::start() {
  const auto shared = begin();
  if (shared == nullptr) return;
  std::unique_lock first(shared->lock);
  (void)shared->changed.wait_for(first, kMaxWaitForFirst, [&] { return shared->has_first; });
}

std::shared_ptr<DeviceSamples::Shared> DeviceSamples::end() {
  const std::lock_guard guard(lock_);
  if (running_ == nullptr || running_->owner != getpid()) return nullptr;
  return std::exchange(running_, nullptr);
}

void DeviceSamples::device_is_used(int device) {
  const uint64_t bit = uint64_t{1} << (static_cast<unsigned>(device) % 64);
  if ((seen_.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((seen_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  const std::lock_guard guard(lock_);
  if (running_ == nullptr || running_->owner != getpid()) return;
  const std::lock_guard asking(running_->lock);
  running_->is_asked = true;
  running_->changed.notify_all();
}

void DeviceSamples::stop() {
  const auto shared = end();
  if (shared == nullptr) return;
  {
    const std::lock_guard ending(shared->lock);
    shared->is_ending = true;
    shared->changed.notify_all();
  }
  (void)shared->thread->join_for(kMaxWaitForLast);
}

}  // namespace vram::capi
