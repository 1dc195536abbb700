// BusyTimes: how long processes kept a device busy, as sums that never decrease, from counters of
// their clients, which may be reset, appear and vanish. Engines run in parallel: between two ticks,
// the time of the busiest one counts, so that a second has at most a second of busy time. Explicit
// state; use it from one thread at a time.
#pragma once

#include "gpu/drm/fdinfo.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace vram::gpu::drm {

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

}  // namespace vram::gpu::drm
