#include "gpu/nvml/identity.hpp"

#include "gpu/nvml/query.hpp"

namespace vram::gpu::nvml {
namespace {

std::optional<std::string> pci_id_of(const NvmlApi& api, nvmlDevice device) {
  const auto pci = query<PciInfo>(api.device_get_pci, device);
  if (!pci || pci->bus > 0xFF || pci->device > 0x1F) return std::nullopt;
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci->domain, pci->bus, pci->device);
}

}  // namespace

DeviceIdentity query_identity(const NvmlApi& api, nvmlDevice device) {
  DeviceIdentity identity;
  identity.name = query_text(api.device_get_name, device);
  identity.uuid = query_text(api.device_get_uuid, device);
  identity.pci_id = pci_id_of(api, device);
  identity.driver = query_text(api.system_get_driver);
  identity.power_limit_milliwatts =
      at_most(kMaxMilliwatts, query<unsigned>(api.device_get_power_limit, device));
  return identity;
}

}  // namespace vram::gpu::nvml
