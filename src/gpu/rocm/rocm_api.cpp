#include "gpu/rocm/rocm_api.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>

namespace vram::gpu::rocm {
namespace {

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

void RocmApi::Unload::operator()(void* opened) const { (void)dlclose(opened); }

Result<RocmApi> RocmApi::load(const std::vector<std::string>& files) {
  RocmApi api;
  for (const std::string& file : files) {
    if (!api.library) api.library.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  }
  void* const library = api.library.get();
  if (library == nullptr)
    return fail(Code::kNotFound,
                "expected AMD's management library as {}, found none that can be opened: install "
                "ROCm SMI (rocm-smi-lib), or name the file in VRAM_ROCM_SMI",
                fmt::join(files, ", "));
  find(library, "rsmi_init", api.init);
  find(library, "rsmi_shut_down", api.shut_down);
  find(library, "rsmi_num_monitor_devices", api.device_count);
  find(library, "rsmi_dev_pci_id_get", api.pci_id);
  find(library, "rsmi_dev_market_name_get", api.market_name);
  find(library, "rsmi_dev_name_get", api.name);
  find(library, "rsmi_dev_ecc_count_get", api.error_count);
  find(library, "rsmi_dev_memory_reserved_pages_get", api.bad_pages);
  if (api.init == nullptr || api.shut_down == nullptr || api.device_count == nullptr ||
      api.pci_id == nullptr)
    return fail(Code::kUnsupported,
                "expected AMD's management library as {}, found a library without rsmi_init and "
                "what belongs to it: install ROCm SMI anew",
                fmt::join(files, ", "));
  return api;
}

}  // namespace vram::gpu::rocm
