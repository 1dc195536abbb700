// Drm: AMD's and Intel's devices and their processes, as telemetry.hpp has them, from what the
// kernel says to everybody: sysfs, KFD and DRM's fdinfo. No library and no right of root is needed;
// processes of other users are seen only with the right to trace them, but for KFD's figures.
//
//     find_cards ──▶ asleep? ──▶ read_sensors ──▶ DeviceSample
//                            └──▶ Processes, once for all devices ──▶ its processes
//     AmdExtras ──▶ what those leave open of AMD's devices
//
// A device that sleeps is asked for nothing but whether it still does. Any thread; one at a time
// gets on. A call reads some files and waits for nothing else.
#pragma once

#include "base/result.hpp"
#include "gpu/drm/amd_extras.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <memory>

namespace vram::gpu::drm {

class Drm final : public Telemetry {
 public:
  // Never fails: where there is nothing, there are no devices.
  [[nodiscard]] static Drm open(Roots roots = {}, const OpenAmdExtras& open_extras = {});
  Drm(Drm&& other) noexcept;
  Drm& operator=(Drm&& other) noexcept;
  ~Drm() override;

  // Finds cards that have come since, within eight calls: then there are more than before, in
  // another order. One that is gone stays, in trouble.
  [[nodiscard]] Result<uint32_t> device_count() const override;
  // Of a device that sleeps, what its bus knows.
  [[nodiscard]] DeviceIdentity identity(uint32_t index) const override;
  [[nodiscard]] DeviceHealth health(uint32_t index) const override;
  // Asked for the second time for the same device, it looks for everybody's processes anew.
  [[nodiscard]] DeviceSample sample(uint32_t index) const override;

  // Files and folders opened so far.
  [[nodiscard]] uint64_t files_opened() const;

 private:
  struct State;
  explicit Drm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vram::gpu::drm
