#include "gpu/drm/processes.hpp"

#include "base/text.hpp"
#include "gpu/drm/fdinfo.hpp"
#include "gpu/drm/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

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

// The same client in two processes is the older one's: a parent's, not its child's.
std::vector<Holder*> oldest_first(std::map<uint32_t, Holder>& holders) {
  std::vector<Holder*> order;
  for (auto& [pid, holder] : holders) order.push_back(&holder);
  std::ranges::sort(
      order, {}, [](const Holder* holder) { return std::tuple(holder->start_ticks, holder->pid); });
  return order;
}

void add(std::optional<uint64_t>& sum, std::optional<uint64_t> bytes) {
  if (bytes) sum = sum.value_or(0) + *bytes;
}

bool uses_anything(const DeviceProcess& process) {
  return process.used_bytes.value_or(0) > 0 || process.host_bytes.value_or(0) > 0 ||
         process.busy_ns.value_or(0) > 0 || process.busy_percent.value_or(0) > 0;
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

void Processes::tick(Files& files, const AwakeDevices& awake) {
  const auto uses =
      kfd_.uses(files, [&](const std::string& pci_id) { return awake.by_pci_id.contains(pci_id); });
  std::vector<uint32_t> users;
  for (const Kfd::Use& use : uses) users.push_back(use.pid);
  holders_.tick(files, users);

  // Also of processes that hold nothing at the moment: they may open a device again.
  busy_.begin_tick(
      [&](const BusyTimes::ProcessKey& process) { return holders_.is_running(process.pid); });
  seen_.clear();
  processes_.clear();
  for (Holder* holder : oldest_first(holders_.all())) read_clients(files, awake, *holder);
  add_kfd(awake, uses);
}

void Processes::read_clients(Files& files, const AwakeDevices& awake, Holder& holder) {
  for (Descriptor& descriptor : holder.descriptors) {
    const auto device = awake.by_node.find(descriptor.node);
    if (device == awake.by_node.end()) continue;
    if (descriptor.client && seen_.contains(*descriptor.client)) continue;
    const auto figures = parse_fdinfo(
        files.read(fmt::format("{}/{}/fdinfo/{}", proc_, holder.pid, descriptor.number)));
    if (!figures) continue;
    const uint64_t nameless = uint64_t{holder.pid} << 32 | descriptor.number;
    ClientKey key{device->second, figures->id.value_or(nameless)};
    if (figures->pci_id) {
      const auto named = awake.by_pci_id.find(*figures->pci_id);
      if (named == awake.by_pci_id.end()) continue;
      key.first = named->second;
    }
    descriptor.client = key;
    if (seen_.insert(key).second) add_client(holder, key, *figures);
  }
}

void Processes::add_client(const Holder& holder, const ClientKey& key,
                           const ClientFigures& figures) {
  const BusyTimes::ProcessKey same{key.first, holder.pid, holder.start_ticks};
  busy_.add(same, key.second, figures);
  DeviceProcess& process = processes_[{key.first, holder.pid}].process;
  process.pid = holder.pid;
  process.is_compute |= figures.is_compute;
  process.is_graphics |= figures.is_graphics;
  add(process.used_bytes, figures.used_bytes);
  add(process.host_bytes, figures.host_bytes);
  process.busy_ns = busy_.busy_ns(same);
  process.busy_percent = busy_.busy_percent(same);
}

void Processes::add_kfd(const AwakeDevices& awake, const std::vector<Kfd::Use>& uses) {
  for (const Kfd::Use& use : uses) {
    Entry& entry = processes_[{awake.by_pci_id.at(use.pci_id), use.pid}];
    entry.process.pid = use.pid;
    entry.process.is_compute = true;
    entry.kfd_bytes = use.bytes;
  }
}

// KFD's figure and fdinfo's are of the same memory: they are not added. On processors with a small
// carve-out KFD counts as the device's what the driver has put into the host's memory.
std::vector<DeviceProcess> Processes::of(uint32_t device, uint64_t max_bytes) const {
  std::vector<DeviceProcess> found;
  for (auto at = processes_.lower_bound({device, 0});
       at != processes_.end() && at->first.first == device; ++at) {
    const auto& [process, kfd_bytes] = at->second;
    if (kfd_bytes == 0 && !uses_anything(process)) continue;
    DeviceProcess& added = found.emplace_back(process);
    if (kfd_bytes > 0 && kfd_bytes <= max_bytes)
      added.used_bytes = std::max(added.used_bytes, std::optional(kfd_bytes));
  }
  return found;
}

namespace {

std::optional<uint32_t> property(std::string_view properties, std::string_view name) {
  return as_small_number(value_of(properties, name, ' ').value_or(""));
}

// A node's place: a domain, and bus, device and function in 16 bits. The number of a partition is
// in the four highest bits, or, with other kernels, in place of the function.
std::optional<std::string> card_of(std::string_view properties,
                                   std::span<const std::string> cards) {
  constexpr uint32_t kNoPart = 0x0fff'ffff;
  const auto location = property(properties, "location_id");
  const auto domain = as_small_number(value_of(properties, "domain", ' ').value_or("0"));
  if (!location || (*location & kNoPart) > 0xffff || !domain || *domain > 0xffff)
    return std::nullopt;
  const uint32_t place = *location & kNoPart;
  for (const uint32_t function : {place & 7, 0U}) {
    auto id =
        fmt::format("{:04x}:{:02x}:{:02x}.{}", *domain, place >> 8, (place >> 3) & 31, function);
    if (std::ranges::find(cards, id) != cards.end()) return id;
  }
  return std::nullopt;
}

}  // namespace

Kfd Kfd::open(Files& files, const std::string& sys, std::span<const std::string> cards) {
  Kfd kfd(sys + "/class/kfd/kfd");
  const std::string nodes = kfd.folder_ + "/topology/nodes/";
  for (const uint32_t node : files.numbers_in(nodes)) {
    const std::string folder = nodes + std::to_string(node);
    const auto id = as_small_number(trimmed(files.read(folder + "/gpu_id")));
    if (!id || *id == 0) continue;  // a processor's node
    const std::string_view properties = files.read(folder + "/properties");
    if (auto card = card_of(properties, cards))
      kfd.gpus_.push_back({*id, *std::move(card), property(properties, "drm_render_minor")});
  }
  return kfd;
}

std::vector<Kfd::Use> Kfd::uses_of(Files& files, const std::vector<Gpu>& gpus) const {
  std::vector<Use> uses;
  if (gpus.empty()) return uses;
  for (const uint32_t pid : files.numbers_in(folder_ + "/proc")) {
    std::map<std::string, uint64_t> held;
    for (const Gpu& gpu : gpus) {
      const auto path = fmt::format("{}/proc/{}/vram_{}", folder_, pid, gpu.id);
      held[gpu.pci_id] += as_bytes(files.read(path)).value_or(0);
    }
    for (const auto& [pci_id, bytes] : held) {
      if (bytes > 0) uses.push_back({pid, pci_id, bytes});
    }
  }
  return uses;
}

}  // namespace vram::gpu::drm
