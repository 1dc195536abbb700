// PciDevices: NVIDIA GPUs in the kernel's list of the bus, and whether they sleep. Reads only the
// kernel's own state: nothing here accesses a device, so none is woken. Part of NvmlWhenAwake; use
// it from one thread at a time.
#pragma once

#include "gpu/drm/files.hpp"

#include <string>
#include <vector>

namespace vram::gpu::nvml {

struct PciDevice {
  std::string pci_id;  // "0000:01:00.0"
  std::string folder;  // /sys/bus/pci/devices/0000:01:00.0
  std::string chip;    // "10de:28e0", PCI's names for maker and chip; "": unknown
};

// Sorted by address. Devices of another driver (for example one that passes them to virtual
// machines) are left out: the library does not know them.
[[nodiscard]] std::vector<PciDevice> find_pci_devices(drm::Files& files, const std::string& sys);

}  // namespace vram::gpu::nvml
