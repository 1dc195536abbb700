#include "gpu/drm/busy.hpp"

#include <algorithm>

namespace vram::gpu::drm {
namespace {

constexpr uint64_t kMostNs = uint64_t{1} << 62;  // 146 years

// Of the busiest engine.
std::optional<uint32_t> percent_between(const std::vector<EngineCycles>& before,
                                        const std::vector<EngineCycles>& now) {
  std::optional<uint32_t> percent;
  for (const EngineCycles& engine : now) {
    const auto same = std::ranges::find(before, engine.name, &EngineCycles::name);
    if (same == before.end() || engine.total <= same->total || engine.busy < same->busy) continue;
    const auto busy = static_cast<double>(engine.busy - same->busy);
    const auto all = static_cast<double>(engine.total - same->total) * engine.capacity;
    percent = std::max(
        percent, std::optional(static_cast<uint32_t>(std::min(100.0, 100.0 * busy / all + 0.5))));
  }
  return percent;
}

}  // namespace

void BusyTimes::add(const ProcessKey& process, uint64_t client, const ClientFigures& figures) {
  History& history = processes_[process];
  ClientHistory& seen = history.clients[client];
  seen.tick = tick_;
  if (figures.busy_ns && *figures.busy_ns < kMostNs) {
    const uint64_t grown = *figures.busy_ns - std::min(*figures.busy_ns, seen.busy_ns);
    seen.busy_ns += grown;
    history.busy_ns = std::min(history.busy_ns.value_or(0) + grown, kMostNs);
  }
  if (const auto percent = percent_between(seen.cycles, figures.cycles))
    history.percent = std::min(100U, history.percent.value_or(0) + *percent);
  seen.cycles = figures.cycles;
}

std::optional<uint64_t> BusyTimes::busy_ns(const ProcessKey& process) const {
  const auto found = processes_.find(process);
  return found == processes_.end() ? std::nullopt : found->second.busy_ns;
}

std::optional<uint32_t> BusyTimes::busy_percent(const ProcessKey& process) const {
  const auto found = processes_.find(process);
  return found == processes_.end() ? std::nullopt : found->second.percent;
}

// A client that is not read for a while (its device sleeps) may come back, and would then count
// twice if it were forgotten: only those of a process that opens the device all the time are.
void BusyTimes::forget_old_clients(History& history) const {
  if (history.clients.size() <= kMostClients) return;
  std::erase_if(history.clients, [&](const auto& entry) { return entry.second.tick + 1 < tick_; });
}

}  // namespace vram::gpu::drm
