// Kfd: AMD's compute driver says in /sys/class/kfd how much memory each process holds on each GPU:
// readable for all, and complete where fdinfo is hidden. Processes that only draw are not in it.
//
// What a GPU is called there is read once, by open(). A GPU in parts has a node for each, all at
// the one card's place, with the part's number beside it; the parts behind the first have render
// nodes that sysfs keeps apart from the card. One thread at a time.
#pragma once

#include "gpu/drm/files.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
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

  struct Gpu {
    uint32_t id = 0;  // KFD's own name for it
    std::string pci_id;
    std::optional<uint32_t> render_minor;  // 128: /dev/dri/renderD128
  };

  // `cards` are the known addresses; of others nothing is told.
  [[nodiscard]] static Kfd open(Files& files, const std::string& sys,
                                std::span<const std::string> cards);
  // One for each part.
  [[nodiscard]] const std::vector<Gpu>& gpus() const { return gpus_; }
  // Those that hold something of the GPUs at such addresses, by pid; a GPU in parts is one.
  template <typename IsAwake>
  [[nodiscard]] std::vector<Use> uses(Files& files, IsAwake is_awake) const {
    std::vector<Gpu> awake;
    for (const Gpu& gpu : gpus_) {
      if (is_awake(gpu.pci_id)) awake.push_back(gpu);
    }
    return uses_of(files, awake);
  }

 private:
  explicit Kfd(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::vector<Use> uses_of(Files& files, const std::vector<Gpu>& gpus) const;

  std::string folder_;
  std::vector<Gpu> gpus_;
};

}  // namespace vram::gpu::drm
