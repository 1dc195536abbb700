#include "gpu/rocm/rocm_api.hpp"

#include "gpu/symbols.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>

namespace vram::gpu::rocm {

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
  Symbols needed(library);
  needed.find("rsmi_init", api.init);
  needed.find("rsmi_shut_down", api.shut_down);
  needed.find("rsmi_num_monitor_devices", api.device_count);
  needed.find("rsmi_dev_pci_id_get", api.pci_id);
  find(library, "rsmi_dev_market_name_get", api.market_name);
  find(library, "rsmi_dev_name_get", api.name);
  find(library, "rsmi_dev_ecc_count_get", api.error_count);
  find(library, "rsmi_dev_memory_reserved_pages_get", api.bad_pages);
  if (!needed.missing().empty())
    return fail(Code::kUnsupported,
                "expected AMD's management library as {}, found a library without rsmi_init and "
                "related functions: reinstall ROCm SMI",
                fmt::join(files, ", "));
  return api;
}

}  // namespace vram::gpu::rocm
