// Kfd: AMD's compute driver says in /sys/class/kfd how much memory each process holds on each GPU:
// readable for all, and complete where fdinfo is hidden. Processes that only draw are not in it.
//
// What a GPU is called there is read once, by open(). One thread at a time.
#pragma once

#include "gpu/drm/files.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu::drm {

class Kfd {
 public:
  struct Use {
    uint32_t pid = 0;
    std::string pci_id;
    uint64_t bytes = 0;
  };

  [[nodiscard]] static Kfd open(Files& files, const std::string& sys);
  // Those that hold something of the GPUs at such addresses, by pid; a GPU in parts is one.
  template <typename IsAwake>
  [[nodiscard]] std::vector<Use> uses(Files& files, IsAwake is_awake) const {
    std::vector<Gpu> asked;
    for (const Gpu& gpu : gpus_) {
      if (is_awake(gpu.pci_id)) asked.push_back(gpu);
    }
    return uses_of(files, asked);
  }

 private:
  struct Gpu {
    uint32_t id = 0;  // KFD's own name for it
    std::string pci_id;
  };
  explicit Kfd(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::vector<Use> uses_of(Files& files, const std::vector<Gpu>& gpus) const;

  std::string folder_;
  std::vector<Gpu> gpus_;
};

}  // namespace vram::gpu::drm
