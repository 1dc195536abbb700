// The driver's libraries, asked for their first answers. A stuck driver never answers, and no call
// of it can be ended: each is asked on a thread of its own, which is left behind.
#include "base/threads.hpp"
#include "doctor/collect.hpp"
#include "gpu/cuda/driver_types.hpp"
#include "gpu/drm/card.hpp"
#include "gpu/nvml/nvml_api.hpp"
#include "gpu/nvml/nvml_when_awake.hpp"
#include "gpu/symbols.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <memory>
#include <utility>

namespace vram::doctor {
namespace {

using gpu::cuda::CUresult;
using gpu::nvml::NvmlApi;
using gpu::nvml::NvmlReturn;

LibraryAnswer query_nvml(const std::string& path) {
  LibraryAnswer answer{.was_asked = true};
  const auto api = NvmlApi::load(path);
  if (!api) {
    answer.load_error = api.error().message;
    return answer;
  }
  NvmlReturn result = api->init();
  if (result == gpu::nvml::kSuccess) {
    unsigned count = 0;
    result = api->device_get_count(&count);
    if (result == gpu::nvml::kSuccess) answer.devices = count;
    std::array<char, 81> version{};
    if (api->system_get_driver != nullptr &&
        api->system_get_driver(version.data(), version.size() - 1) == gpu::nvml::kSuccess)
      answer.version = version.data();
    (void)api->shutdown();
  }
  answer.error = result;
  if (result != gpu::nvml::kSuccess) answer.error_text = api->name_of(result);
  return answer;
}

std::string words_for(void* library, int error) {
  const char* name = nullptr;
  auto* const get_name = gpu::symbol<CUresult(CUresult, const char**)>(library, "cuGetErrorName");
  if (get_name == nullptr || get_name(static_cast<CUresult>(error), &name) != 0 || name == nullptr)
    name = "error";
  return fmt::format("{} ({})", name, error);
}

LibraryAnswer query_cuda(const std::string& path) {
  LibraryAnswer answer{.was_asked = true};
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open, as drivers must
  auto* const init =
      library == nullptr ? nullptr : gpu::symbol<CUresult(unsigned)>(library, "cuInit");
  if (init == nullptr) {
    const char* const why = dlerror();
    answer.load_error = why == nullptr ? tr("it has no cuInit") : why;
    return answer;
  }
  int number = 0;
  auto* const get_version = gpu::symbol<CUresult(int*)>(library, "cuDriverGetVersion");
  if (get_version != nullptr && get_version(&number) == 0)
    answer.version = fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  answer.error = init(0);
  auto* const get_count = gpu::symbol<CUresult(int*)>(library, "cuDeviceGetCount");
  if (answer.error == 0 && get_count != nullptr) answer.error = get_count(&number);
  if (answer.error == 0) answer.devices = static_cast<uint32_t>(std::max(number, 0));
  if (answer.error != 0) answer.error_text = words_for(library, answer.error);
  return answer;
}

template <typename Query>
LibraryAnswer query_within(std::chrono::milliseconds timeout, Query query) {
  auto answer = std::make_shared<LibraryAnswer>();
  DetachableThread thread([answer, query = std::move(query)] { *answer = query(); });
  if (thread.join_for(timeout)) return *std::move(answer);
  return {.was_asked = true, .is_hanging = true};
}

bool are_all_devices_asleep() {
  gpu::drm::Files files;
  const auto devices = gpu::nvml::find_pci_devices(files, "/sys");
  return !devices.empty() && std::ranges::all_of(devices, [&](const auto& device) {
    return gpu::drm::is_asleep(files, device.folder);
  });
}

}  // namespace

void query_libraries(MachineFacts& facts, const Libraries& libraries) {
  if (are_all_devices_asleep()) return;
  facts.nvidia.nvml =
      query_within(libraries.timeout, [path = libraries.nvml] { return query_nvml(path); });
  if (facts.nvidia.nvml.is_hanging) return;  // the other one would hang, too
  facts.nvidia.cuda =
      query_within(libraries.timeout, [path = libraries.cuda] { return query_cuda(path); });
}

}  // namespace vram::doctor
