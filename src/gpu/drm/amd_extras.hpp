// AmdExtras: what somebody else than the kernel's files knows of AMD's devices (gpu/rocm). Drm asks
// it for what those leave open, and takes nothing else: the kernel's word comes first.
#pragma once

#include "gpu/drm/files.hpp"
#include "gpu/telemetry.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vram::gpu::drm {

struct AmdExtra {
  std::optional<std::string> name;  // as it is sold; whatever bytes
  EccCounts ecc_since_boot;
  std::optional<RetiredPages> retired_pages;
};

class AmdExtras {
 public:
  virtual ~AmdExtras() = default;
  // Of the device at this address, by the last answer. Waits for no library but, once and shortly,
  // for the first answer.
  [[nodiscard]] virtual AmdExtra of(const std::string& pci_id) = 0;
};

// Called only where there is a device of AMD's.
using OpenAmdExtras = std::function<std::unique_ptr<AmdExtras>(const Roots&)>;

}  // namespace vram::gpu::drm
