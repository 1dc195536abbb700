// NvmlWhenAwake: Nvml that lets laptops' GPUs sleep. Opening the library wakes them, asking a
// device wakes that one, and holding the library open may keep them from going to sleep. So the
// kernel is asked before the library:
//
//     PciDevices ──▶ all asleep: the library is closed, and the devices are known by address alone
//                └─▶ else Nvml, but for those devices that sleep
//
// Of a device that sleeps, what the bus knows, and what it said itself when it was awake. One
// thread at a time; device_count() begins a tick, and is where the library is opened and closed.
#pragma once

#include "base/result.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vram::gpu::nvml {

class NvmlWhenAwake final : public Telemetry {
 public:
  // As Nvml::open; always succeeds while all devices sleep. `sys` is where the kernel's files lie.
  [[nodiscard]] static Result<NvmlWhenAwake> open(const std::string& library = Nvml::kLibrary,
                                                  const std::string& sys = "/sys");
  NvmlWhenAwake(NvmlWhenAwake&& other) noexcept;
  NvmlWhenAwake& operator=(NvmlWhenAwake&&) = delete;
  ~NvmlWhenAwake() override;

  // An error also when devices woke and the library does not open; and once, within eight calls,
  // when a device came to the bus: the library knows those that were there when it was opened, so
  // it is to be opened again.
  [[nodiscard]] Result<uint32_t> device_count() const override;
  // The library counts its devices by address, as the bus does. Where it counts others (a container
  // has only some), each is asked once which it is, and that may wake it.
  [[nodiscard]] DeviceIdentity identity(uint32_t index) const override;
  [[nodiscard]] DeviceHealth health(uint32_t index) const override;
  [[nodiscard]] DeviceSample sample(uint32_t index) const override;
  // From the second look on: who looks once has no use for them. Of no device while one sleeps,
  // since to ask for them wakes it.
  [[nodiscard]] XidNews xid_news() const override;

 private:
  struct State;
  explicit NvmlWhenAwake(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vram::gpu::nvml
