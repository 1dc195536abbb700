#include "gpu/nvml/nvml.hpp"

#include "base/environment.hpp"
#include "gpu/nvml/identity.hpp"

#include <string_view>
#include <utility>

namespace vram::gpu::nvml {
namespace {

std::string_view advice_for(NvmlReturn error) {
  switch (error) {
    case kDriverNotLoaded:
      return "load NVIDIA's kernel module, or run on a machine with a GPU";
    case kLibRmVersionMismatch:
      return "the library and the kernel module have different versions: reboot, or reinstall the "
             "driver";
    case kOperatingSystem:
    case kUnknown:
      return "in a container the devices may have been taken away: start it again";
    default:
      return "run nvidia-smi to see whether the driver works at all";
  }
}

// More than a machine has; a driver that says so is not to be followed.
constexpr unsigned kMaxDevices = 1024;

}  // namespace

std::string Nvml::library() {
  std::string named = trusted_environment("VRAM_NVML");
  return named.empty() ? kLibrary : named;
}

Result<Nvml> Nvml::open(const std::string& path) {
  const auto api = NvmlApi::load(path);
  if (!api) return tl::unexpected(api.error());
  if (const NvmlReturn result = api->init(); result != kSuccess) {
    return fail(result == kDriverNotLoaded ? Code::kNotFound : Code::kUnsupported,
                "expected {} to start, found that nvmlInit answers {}: {}", path,
                api->name_of(result), advice_for(result));
  }
  return Nvml(*api);
}

Nvml::~Nvml() {
  if (!memory_) return;
  memory_->devices.clear();  // gives back what the library lent
  (void)api_.shutdown();
}

Result<uint32_t> Nvml::device_count() const {
  unsigned count = 0;
  if (const NvmlReturn result = api_.device_get_count(&count); result != kSuccess) {
    return fail(Code::kUnsupported,
                "expected the number of GPUs, found that nvmlDeviceGetCount answers {}: {}",
                api_.name_of(result), advice_for(result));
  }
  if (count > kMaxDevices) {
    return fail(Code::kUnsupported, "expected at most {} GPUs, found that the driver counts {}: {}",
                kMaxDevices, count, advice_for(kUnknown));
  }
  return count;
}

DeviceIdentity Nvml::identity(uint32_t index) const {
  CachedReadings cached;
  DeviceIdentity identity;
  if (find(index, cached) == kSuccess) identity = query_identity(api_, cached.device);
  identity.index = index;
  return identity;
}

DeviceHealth Nvml::health(uint32_t index) const {
  CachedReadings cached;
  return find(index, cached) == kSuccess ? query_health(api_, cached.device) : DeviceHealth{};
}

DeviceSample Nvml::sample(uint32_t index) const {
  CachedReadings cached;
  DeviceSample sample;
  NvmlReturn answer = find(index, cached);
  if (answer == kSuccess) answer = take_sample(api_, cached, sample);
  if (answer == kSuccess) {
    keep(index, std::move(cached));
  } else {
    forget(index);
    sample = {};
    sample.trouble = api_.name_of(answer);
  }
  sample.index = index;
  return sample;
}

NvmlReturn Nvml::find(uint32_t index, CachedReadings& cached) const {
  {
    const std::lock_guard lock(memory_->mutex);
    if (const auto known = memory_->devices.find(index); known != memory_->devices.end())
      cached = known->second;
  }
  if (cached.device != nullptr) return kSuccess;
  const NvmlReturn answer = api_.device_get_handle(index, &cached.device);
  if (answer == kSuccess && cached.device == nullptr) return kUnknown;
  if (answer == kSuccess) keep(index, cached);
  return answer;
}

void Nvml::keep(uint32_t index, CachedReadings cached) const {
  const std::lock_guard lock(memory_->mutex);
  std::swap(memory_->devices[index], cached);  // what it was may call the driver when it ends
}

void Nvml::forget(uint32_t index) const {
  decltype(memory_->devices)::node_type gone;  // ends after the lock, as in keep()
  const std::lock_guard lock(memory_->mutex);
  gone = memory_->devices.extract(index);
}

}  // namespace vram::gpu::nvml
