// Drm: AMD and Intel devices and their processes, as telemetry.hpp defines them, from files that
// every user can read: sysfs, KFD and DRM's fdinfo. Needs no library and no root; other users'
// processes are visible only with the right to trace them, except KFD's figures.
//
//     find_cards ──▶ asleep? ──▶ read_sensors ──▶ DeviceSample
//                            └──▶ Processes, once for all devices ──▶ its processes
//     AmdExtras ──▶ further figures of AMD devices
//
// Of a sleeping device, only its power state is read. May be called from any thread, which are
// serialized. A call reads some files and waits for nothing else.
#pragma once

#include "base/result.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vram::gpu::drm {

// The kernel's files of this machine; or those in the folder that the environment variable
// VRAM_DRM_ROOT names, which has both as another machine has them.
[[nodiscard]] Roots machine_roots();

// AmdExtras: a second source of figures of AMD devices (gpu/rocm). Drm uses it only for figures
// that the kernel's files do not have.

struct AmdExtra {
  std::optional<std::string> name;  // product name; arbitrary bytes
  EccCounts ecc_since_boot;
  std::optional<RetiredPages> retired_pages;
};

class AmdExtras {
 public:
  virtual ~AmdExtras() = default;
  // Returns the last reading of the device at this address. Does not wait for the library, except
  // once, briefly, for the first reading.
  [[nodiscard]] virtual AmdExtra of(const std::string& pci_id) = 0;
};

// Called only if there is an AMD device.
using OpenAmdExtras = std::function<std::unique_ptr<AmdExtras>(const Roots&)>;

class Drm final : public Telemetry {
 public:
  // Never fails: without devices, the list is empty.
  [[nodiscard]] static Drm open(Roots roots = {}, const OpenAmdExtras& open_extras = {});
  Drm(Drm&& other) noexcept;
  Drm& operator=(Drm&& other) noexcept;
  ~Drm() override;

  // Also finds cards that appeared since, within eight calls: the count and the order then change.
  // A removed card stays in the list, with `trouble`.
  [[nodiscard]] Result<uint32_t> device_count() const override;
  // Of a sleeping device, only what the bus knows.
  [[nodiscard]] DeviceIdentity identity(uint32_t index) const override;
  [[nodiscard]] DeviceHealth health(uint32_t index) const override;
  // The second call for the same device lists all processes again.
  [[nodiscard]] DeviceSample sample(uint32_t index) const override;

  // Files and folders opened so far.
  [[nodiscard]] uint64_t files_opened() const;

 private:
  struct State;
  explicit Drm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vram::gpu::drm
