// Processes: the use of each device by each process, from the DRM clients' fdinfo and from KFD. One
// scan of the machine for all devices, which is a tick. Explicit state; use it from one thread at a
// time.
//
//     Holders ──▶ fdinfo of each client once ──▶ sums by (device, pid) ──▶ DeviceProcess
//     Kfd ─────────────────────────────────────▶ the larger possible figure is used
#pragma once

#include "gpu/drm/busy.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/drm/holders.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu::drm {

// Kfd: memory of each process on each AMD GPU, from the compute driver's files in /sys/class/kfd:
// readable by everyone, and complete where fdinfo is hidden. Processes without compute work are not
// listed.
//
// open() reads the GPUs' ids once. A partitioned GPU has a node for each partition, all with the
// card's address and a partition number; the render nodes of further partitions are not listed
// below the card in sysfs. Use it from one thread at a time.
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

// The devices that may be read, by their names in each source.
struct AwakeDevices {
  std::map<std::string, uint32_t> by_node;  // "card0", "renderD128"
  std::map<std::string, uint32_t> by_pci_id;
};

class Processes {
 public:
  Processes(std::string proc, Kfd kfd)
      : proc_(std::move(proc)), holders_(proc_), kfd_(std::move(kfd)) {}

  void tick(Files& files, const AwakeDevices& awake);
  // As of the last tick, by pid. `max_bytes`: the device's memory.
  [[nodiscard]] std::vector<DeviceProcess> of(uint32_t device, uint64_t max_bytes) const;

 private:
  struct Entry {
    DeviceProcess process;   // by fdinfo
    uint64_t kfd_bytes = 0;  // by KFD
  };

  void read_clients(Files& files, const AwakeDevices& awake, Holder& holder);
  void add_client(const Holder& holder, const ClientKey& key, const ClientFigures& figures);
  void add_kfd(const AwakeDevices& awake, const std::vector<Kfd::Use>& uses);

  std::string proc_;
  Holders holders_;
  Kfd kfd_;
  BusyTimes busy_;
  std::set<ClientKey> seen_;                                  // in this tick
  std::map<std::pair<uint32_t, uint32_t>, Entry> processes_;  // by device and pid
};

}  // namespace vram::gpu::drm
