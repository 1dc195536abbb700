// PciDevices: NVIDIA's GPUs as the kernel's list of the bus has them, and whether they sleep. All
// of it is what the kernel remembers itself: nothing here touches a device, so none wakes. Part of
// NvmlWhenAwake; one thread at a time.
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

// By address. Those that another driver has (one that lends devices to virtual machines, say) are
// left out: the library does not know them.
[[nodiscard]] std::vector<PciDevice> find_pci_devices(drm::Files& files, const std::string& sys);

}  // namespace vram::gpu::nvml
