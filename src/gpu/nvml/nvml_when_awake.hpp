// NvmlWhenAwake: Nvml that lets laptop GPUs sleep. Opening the library wakes them, reading a device
// wakes that device, and an open library may keep them awake. So the kernel is asked first:
//
//     find_pci_devices ──▶ all asleep: the library is closed, only the devices' addresses are known
//                      └─▶ else Nvml, except for the sleeping devices
//
// Of a sleeping device, the bus's facts and the identity read before are known. Use it from one
// thread at a time; device_count() starts a tick, and opens and closes the library.
#pragma once

#include "base/result.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vram::gpu::nvml {

class NvmlWhenAwake final : public Telemetry {
 public:
  // As Nvml::open, but succeeds while all devices sleep. `sys` is where the kernel's files are.
  [[nodiscard]] static Result<NvmlWhenAwake> open(const std::string& library = Nvml::kLibrary,
                                                  const std::string& sys = "/sys");
  NvmlWhenAwake(NvmlWhenAwake&& other) noexcept;
  NvmlWhenAwake& operator=(NvmlWhenAwake&&) = delete;
  ~NvmlWhenAwake() override;

  // Also fails if devices woke and the library cannot be opened; and once, within eight calls, if a
  // device was added to the bus: the library knows only the devices at its opening, so open it
  // again.
  [[nodiscard]] Result<uint32_t> device_count() const override;
  // The library numbers devices by address, as the bus does. If it has other devices (a container
  // has only some), each is identified once by a read, which may wake it.
  [[nodiscard]] DeviceIdentity identity(uint32_t index) const override;
  [[nodiscard]] DeviceHealth health(uint32_t index) const override;
  [[nodiscard]] DeviceSample sample(uint32_t index) const override;
  // From the second sample on, since a single sample does not need events. Empty while any device
  // sleeps, because subscribing wakes it.
  [[nodiscard]] XidReport xid_report() const override;

 private:
  struct State;
  explicit NvmlWhenAwake(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// An NVIDIA GPU in the kernel's list of the bus.
struct PciDevice {
  std::string pci_id;  // "0000:01:00.0"
  std::string folder;  // /sys/bus/pci/devices/0000:01:00.0
  std::string chip;    // "10de:28e0", PCI's names for maker and chip; "": unknown
};

// Reads the kernel's own state alone: nothing here accesses a device, so none is woken. Sorted by
// address. Devices of another driver (for example one that passes them to virtual machines) are
// left out: the library does not know them.
[[nodiscard]] std::vector<PciDevice> find_pci_devices(drm::Files& files, const std::string& sys);

}  // namespace vram::gpu::nvml
