// BusyTimes: how long processes kept a device busy, as a sum that only ever grows, from their
// clients' counters, which may step back, appear and vanish. Explicit state; one thread at a time.
#pragma once

#include "gpu/drm/fdinfo.hpp"

#include <cstdint>
#include <map>
#include <optional>
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

  // What a client's counters say now. Once a tick for each client.
  void add(const ProcessKey& process, uint64_t client, const ClientFigures& figures);
  // Since the process was first seen, and of what it did before.
  [[nodiscard]] std::optional<uint64_t> busy_ns(const ProcessKey& process) const;
  // Of the busiest engine's time between this tick and the one before, where engines count cycles.
  [[nodiscard]] std::optional<uint32_t> busy_percent(const ProcessKey& process) const;

  // The next tick begins: `is_alive(process)` says whom to remember.
  template <typename IsAlive>
  void begin_tick(IsAlive is_alive) {
    ++tick_;
    std::erase_if(processes_, [&](const auto& entry) { return !is_alive(entry.first); });
    for (auto& [key, history] : processes_) {
      history.percent.reset();
      forget_old_clients(history);
    }
  }

 private:
  static constexpr size_t kMostClients = 1024;  // of a process, before old ones are forgotten

  struct ClientHistory {
    uint64_t busy_ns = 0;  // the most it ever said
    std::vector<EngineCycles> cycles;
    uint64_t tick = 0;
  };
  struct History {
    std::optional<uint64_t> busy_ns;
    std::optional<uint32_t> percent;
    std::map<uint64_t, ClientHistory> clients;
  };
  void forget_old_clients(History& history) const;

  std::map<ProcessKey, History> processes_;
  uint64_t tick_ = 0;
};

}  // namespace vram::gpu::drm
