// Processes: the use of each device by each process, from the DRM clients' fdinfo and from KFD. One
// scan of the machine for all devices, which is a tick. Explicit state; use it from one thread at a
// time.
//
//     Holders ──▶ fdinfo of each client once ──▶ sums by (device, pid) ──▶ DeviceProcess
//     Kfd ─────────────────────────────────────▶ the larger possible figure is used
#pragma once

#include "gpu/drm/fdinfo.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/drm/holders.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace vram::gpu::drm {

// BusyTimes: how long processes kept a device busy, as sums that never decrease, from counters of
// their clients, which may be reset, appear and vanish. Engines run in parallel: between two ticks,
// the time of the busiest one counts, so that a second has at most a second of busy time. Explicit
// state; use it from one thread at a time.
class BusyTimes {
 public:
  struct ProcessKey {
    uint32_t device = 0;
    uint32_t pid = 0;
    uint64_t start_ticks = 0;
    auto operator<=>(const ProcessKey&) const = default;
  };

  // Adds the current counters of a client; once for each client and tick.
  void add(const ProcessKey& process, uint64_t client, const ClientFigures& figures);
  // Since the process was first seen, plus its time before that.
  [[nodiscard]] std::optional<uint64_t> busy_ns(const ProcessKey& process) const;
  // Of the busiest engine's time between this tick and the one before, where engines count cycles.
  [[nodiscard]] std::optional<uint32_t> busy_percent(const ProcessKey& process) const;

  // Starts the next tick; processes for which `is_alive` is false are forgotten.
  template <typename IsAlive>
  void begin_tick(IsAlive is_alive) {
    ++tick_;
    std::erase_if(processes_, [&](const auto& entry) { return !is_alive(entry.first); });
    for (auto& [key, history] : processes_) {
      history.busy_before_ns = busy_ns_of(history);
      history.engines.clear();
      forget_old_clients(history);
    }
  }

 private:
  static constexpr size_t kMaxClients = 1024;  // of a process, before old ones are forgotten

  struct ClientHistory {
    std::vector<EngineTime> times;  // the highest values so far
    std::vector<EngineCycles> cycles;
    uint64_t tick = 0;
  };
  // The time of all clients of a process on one engine in this tick.
  struct Engine {
    std::string name;
    std::optional<uint64_t> grown_ns;
    std::optional<double> share;  // if it counts cycles
  };
  struct History {
    std::optional<uint64_t> busy_before_ns;  // of the ticks before
    std::vector<Engine> engines;
    std::map<uint64_t, ClientHistory> clients;
  };
  [[nodiscard]] static Engine& engine_of(History& history, const std::string& name);
  [[nodiscard]] static std::optional<uint64_t> busy_ns_of(const History& history);
  void forget_old_clients(History& history) const;

  std::map<ProcessKey, History> processes_;
  uint64_t tick_ = 0;
};

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
