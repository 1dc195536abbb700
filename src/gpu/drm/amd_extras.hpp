// AmdExtras: a second source of figures of AMD devices (gpu/rocm). Drm uses it only for figures
// that the kernel's files do not have.
#pragma once

#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vram::gpu::drm {

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

}  // namespace vram::gpu::drm
