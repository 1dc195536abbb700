// Kfd: memory of each process on each AMD GPU, from the compute driver's files in /sys/class/kfd:
// readable by everyone, and complete where fdinfo is hidden. Processes without compute work are not
// listed.
//
// open() reads the GPUs' ids once. A partitioned GPU has a node for each partition, all with the
// card's address and a partition number; the render nodes of further partitions are not listed
// below the card in sysfs. Use it from one thread at a time.
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

  // `cards`: the known addresses; other GPUs are ignored.
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
