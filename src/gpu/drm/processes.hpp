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
#include "gpu/drm/kfd.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu::drm {

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
