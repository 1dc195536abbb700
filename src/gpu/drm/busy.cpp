#include "gpu/drm/busy.hpp"

#include <algorithm>

namespace vram::gpu::drm {
namespace {

constexpr uint64_t kMaxNs = uint64_t{1} << 62;  // 146 years

// Since `before`; nothing if the counters were reset.
std::optional<double> share_between(const std::vector<EngineCycles>& before,
                                    const EngineCycles& now) {
  const auto same = std::ranges::find(before, now.name, &EngineCycles::name);
  if (same == before.end() || now.total <= same->total || now.busy < same->busy)
    return std::nullopt;
  const auto busy = static_cast<double>(now.busy - same->busy);
  return busy / (static_cast<double>(now.total - same->total) * now.capacity);
}

// By how much a counter is beyond the most that it ever said, which it then is.
uint64_t grow(std::vector<EngineTime>& times, const EngineTime& now) {
  auto seen = std::ranges::find(times, now.name, &EngineTime::name);
  if (seen == times.end()) seen = times.insert(times.end(), EngineTime{now.name, 0});
  const uint64_t grown = now.busy_ns - std::min(now.busy_ns, seen->busy_ns);
  seen->busy_ns += grown;
  return grown;
}

}  // namespace

BusyTimes::Engine& BusyTimes::engine_of(History& history, const std::string& name) {
  const auto found = std::ranges::find(history.engines, name, &Engine::name);
  return found != history.engines.end() ? *found
                                        : history.engines.emplace_back(Engine{name, {}, {}});
}

std::optional<uint64_t> BusyTimes::busy_ns_of(const History& history) {
  std::optional<uint64_t> grown;
  for (const Engine& engine : history.engines) grown = std::max(grown, engine.grown_ns);
  if (!grown) return history.busy_before_ns;
  return std::min(history.busy_before_ns.value_or(0) + *grown, kMaxNs);
}

void BusyTimes::add(const ProcessKey& process, uint64_t client, const ClientFigures& figures) {
  History& history = processes_[process];
  ClientHistory& seen = history.clients[client];
  seen.tick = tick_;
  for (const EngineTime& time : figures.times) {
    if (time.busy_ns >= kMaxNs) continue;
    auto& grown = engine_of(history, time.name).grown_ns;
    grown = std::min(grown.value_or(0) + grow(seen.times, time), kMaxNs);
  }
  for (const EngineCycles& cycles : figures.cycles) {
    if (const auto part = share_between(seen.cycles, cycles)) {
      auto& share = engine_of(history, cycles.name).share;
      share = share.value_or(0) + *part;
    }
  }
  seen.cycles = figures.cycles;
}

std::optional<uint64_t> BusyTimes::busy_ns(const ProcessKey& process) const {
  const auto found = processes_.find(process);
  return found == processes_.end() ? std::nullopt : busy_ns_of(found->second);
}

std::optional<uint32_t> BusyTimes::busy_percent(const ProcessKey& process) const {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return std::nullopt;
  std::optional<double> busiest;
  for (const Engine& engine : found->second.engines) busiest = std::max(busiest, engine.share);
  if (!busiest) return std::nullopt;
  return static_cast<uint32_t>(std::min(100.0, 100.0 * *busiest + 0.5));
}

// A client that is not read for a while (its device sleeps) may come back, and would then count
// twice if it were forgotten: only those of a process that opens the device all the time are.
void BusyTimes::forget_old_clients(History& history) const {
  if (history.clients.size() <= kMaxClients) return;
  std::erase_if(history.clients, [&](const auto& entry) { return entry.second.tick + 1 < tick_; });
}

}  // namespace vram::gpu::drm
