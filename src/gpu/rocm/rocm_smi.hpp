// RocmSmi: AMD's management library, started; reads the figures of each device that drm/ does not
// get from the kernel's files.
//
//     RocmApi ──▶ RocmSmi ──▶ devices by PCI address ──▶ query() ──▶ drm::AmdExtra
//
// Any of its calls may block for long, and opening it wakes sleeping devices: RocmExtras handles
// both. Use it from one thread at a time. The destructor shuts the library down.
#pragma once

#include "base/result.hpp"
#include "gpu/drm/amd_extras.hpp"
#include "gpu/rocm/rocm_api.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vram::gpu::rocm {

// The file that the environment variable VRAM_ROCM_SMI names, else the library by the names that it
// has from ROCm 5 to 7.
[[nodiscard]] std::vector<std::string> libraries();

class RocmSmi {
 public:
  // Errors as RocmApi::load; kUnsupported also: it does not start.
  [[nodiscard]] static Result<RocmSmi> open(const std::vector<std::string>& files);
  RocmSmi(RocmSmi&& other) noexcept = default;
  RocmSmi& operator=(RocmSmi&&) = delete;
  ~RocmSmi();

  // Impossible and missing figures are unknown, as is everything of a device that the library does
  // not list. For a partitioned device, the figures of its first partition.
  [[nodiscard]] drm::AmdExtra query(const std::string& pci_id) const;

 private:
  explicit RocmSmi(RocmApi api) : api_(std::move(api)) {}
  [[nodiscard]] Result<> count_devices();

  RocmApi api_;                              // without a library: moved from
  std::map<std::string, uint32_t> devices_;  // their numbers, by PCI address
};

}  // namespace vram::gpu::rocm
