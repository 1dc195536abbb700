#include "serve/processes.hpp"

#include "base/text.hpp"
#include "serve/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::serve {
namespace {

constexpr std::array<std::pair<std::string_view, SortBy>, 4> kOrders = {
    {{"memory", SortBy::kMemory},
     {"pid", SortBy::kPid},
     {"user", SortBy::kUser},
     {"busy", SortBy::kBusy}}};

bool is_on(const watch::Process& process, uint32_t device) {
  return std::ranges::any_of(process.uses, [&](const auto& use) { return use.device == device; });
}

// On the one device, or on all; nothing where no figure is known.
template <typename Figure>
std::optional<uint64_t> sum(const watch::Process& process, const ProcessQuery& query,
                            Figure figure) {
  std::optional<uint64_t> total;
  for (const watch::Use& use : process.uses) {
    if (query.device && use.device != *query.device) continue;
    if (const auto& value = use.process.*figure) total = total.value_or(0) + *value;
  }
  return total;
}

std::optional<uint64_t> figure_of(const watch::Process& process, const ProcessQuery& query) {
  if (query.sort == SortBy::kBusy) return sum(process, query, &gpu::DeviceProcess::busy_percent);
  return sum(process, query, &gpu::DeviceProcess::used_bytes);
}

bool comes_first(const watch::Process& left, const watch::Process& right,
                 const ProcessQuery& query) {
  if (query.sort == SortBy::kUser && left.facts->user != right.facts->user) {
    if (!left.facts->user || !right.facts->user) return left.facts->user.has_value();
    return *left.facts->user < *right.facts->user;
  }
  if (query.sort == SortBy::kMemory || query.sort == SortBy::kBusy) {
    const auto mine = figure_of(left, query);
    const auto other = figure_of(right, query);
    if (mine != other) return mine > other;  // nothing is less than anything
  }
  return left.facts->pid < right.facts->pid;
}

}  // namespace

const watch::Device* find_device(const watch::Snapshot& snapshot, std::string_view key) {
  for (const watch::Device& device : snapshot.devices) {
    const gpu::DeviceIdentity& identity = device.identity;
    if (identity.uuid == key || identity.pci_id == key || fmt::format("{}", identity.index) == key)
      return &device;
  }
  return nullptr;
}

Result<ProcessQuery> parse_process_query(const Query& query, const watch::Snapshot& snapshot) {
  ProcessQuery parsed;
  if (const auto key = parameter(query, "device")) {
    const watch::Device* const device = find_device(snapshot, *key);
    if (device == nullptr)
      return fail(Code::kBadInput,
                  "there is no device '{}'; /api/v1/devices lists them, by index, uuid, pci_id",
                  printable(key->substr(0, 100)));
    parsed.device = device->identity.index;
  }
  if (const auto user = parameter(query, "user")) parsed.user = std::string(*user);
  if (const auto sort = parameter(query, "sort")) {
    const auto found =
        std::ranges::find(kOrders, *sort, &std::pair<std::string_view, SortBy>::first);
    if (found == kOrders.end())
      return fail(Code::kBadInput, "sort: expected memory, pid, user or busy, found '{}'",
                  printable(sort->substr(0, 100)));
    parsed.sort = found->second;
  }
  return parsed;
}

std::vector<const watch::Process*> select(const watch::Snapshot& snapshot,
                                          const ProcessQuery& query) {
  std::vector<const watch::Process*> found;
  for (const watch::Process& process : snapshot.processes) {
    if (query.device && !is_on(process, *query.device)) continue;
    if (query.user && process.facts->user != query.user) continue;
    found.push_back(&process);
  }
  std::ranges::stable_sort(found, [&](const watch::Process* left, const watch::Process* right) {
    return comes_first(*left, *right, query);
  });
  return found;
}

}  // namespace vram::serve
