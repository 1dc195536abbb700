#include "watch/figures/computed.hpp"

#include "gpu/number_formats.hpp"
#include "watch/process_texts.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

namespace vram::watch::figures {
namespace {

constexpr uint32_t kWholePercent = 100;
constexpr size_t kShortId = 12;  // as container tools print it

// Of those that count.
template <typename Counts>
std::optional<uint64_t> count_processes(const gpu::DeviceSample& sample, Counts counts) {
  if (!sample.processes) return std::nullopt;
  std::set<uint32_t> pids;
  for (const gpu::DeviceProcess& process : *sample.processes) {
    if (counts(process)) pids.insert(process.pid);
  }
  return pids.size();
}

std::optional<double> used_ratio_of(const gpu::DeviceMemory& memory) {
  const auto [total, used, free, reserved] = memory;
  if (!total || !used || !reserved || *reserved >= *total || *used > *total - *reserved)
    return std::nullopt;
  return static_cast<double>(*used) / static_cast<double>(*total - *reserved);
}

}  // namespace

const std::optional<std::vector<std::string>>& formats_of(const Device& device) {
  return gpu::tensor_core_formats(device.identity);
}

std::string_view vendor_of(const Device& device) {
  return kVendors.at(static_cast<size_t>(device.identity.vendor));
}

bool is_up(const Device& device) { return !device.sample.trouble; }

std::optional<uint64_t> process_count(const Device& device) {
  return count_processes(device.sample, [](const gpu::DeviceProcess&) { return true; });
}

std::optional<uint64_t> mps_client_count(const Device& device) {
  const auto count = count_processes(device.sample, std::mem_fn(&gpu::DeviceProcess::is_mps));
  return count == 0U ? std::nullopt : count;
}

std::optional<double> busy_ratio(const Device& device) {
  const auto percent = device.sample.busy_percent;
  return percent && *percent <= kWholePercent ? std::optional(*percent / 100.0) : std::nullopt;
}

std::optional<double> used_ratio(const Device& device) {
  return used_ratio_of(device.sample.memory);
}

std::optional<double> instance_used_ratio(const gpu::MigInstance& instance) {
  return used_ratio_of(instance.memory);
}

std::optional<std::string_view> runtime_of(const Container& container) {
  return container.runtime.empty() ? std::nullopt
                                   : std::optional<std::string_view>(container.runtime);
}

std::optional<std::string_view> kind_of(const Use& use) {
  const gpu::DeviceProcess& process = use.process;
  if (!process.is_compute)
    return process.is_graphics ? std::optional<std::string_view>("graphics") : std::nullopt;
  if (process.is_mps)
    return process.is_graphics ? "compute (MPS client), graphics" : "compute (MPS client)";
  return process.is_graphics ? "compute, graphics" : "compute";
}

std::optional<uint64_t> mps_client(const Use& use) {
  return use.process.is_mps ? std::optional<uint64_t>(1) : std::nullopt;
}

std::vector<Point> device_info(const Device& device) {
  const gpu::DeviceIdentity& identity = device.identity;
  return {{.labels = {std::to_string(identity.index), identity.name.value_or(""),
                      std::string(vendor_of(device)), identity.driver.value_or(""),
                      identity.pci_id.value_or("")},
           .number = 1}};
}

std::vector<Point> trouble_info(const Device& device) {
  if (!device.sample.trouble) return {};
  return {{.labels = {*device.sample.trouble}, .number = 1}};
}

std::vector<Point> throttle_reasons(const Device& device) {
  const auto& reasons = device.sample.throttle_reasons;
  if (!reasons) return {};
  std::vector<Point> points;
  for (const std::string& reason : *reasons) points.push_back({.labels = {reason}, .number = 1});
  if (device.identity.vendor != gpu::Vendor::kNvidia) return points;
  for (const std::string_view reason : gpu::kThrottleReasons) {
    if (std::ranges::find(*reasons, reason) == reasons->end())
      points.push_back({.labels = {std::string(reason)}, .number = 0});
  }
  return points;
}

std::vector<Point> recovery_actions(const Device& device) {
  const auto& wanted = device.health.recovery_action;
  if (!wanted) return {};
  std::vector<Point> points = {{.labels = {*wanted}, .number = 1}};
  for (const std::string_view action : gpu::kRecoveryActions) {
    if (action != *wanted) points.push_back({.labels = {std::string(action)}, .number = 0});
  }
  return points;
}

std::vector<Point> xid_counts(const Device& device) {
  std::vector<Point> points;
  for (const XidCount& each : device.xids.value_or(std::vector<XidCount>()))
    points.push_back({.labels = {std::to_string(each.xid)}, .number = each.count});
  return points;
}

std::vector<Point> xid_times(const Device& device) {
  std::vector<Point> points;
  for (const XidCount& each : device.xids.value_or(std::vector<XidCount>())) {
    if (each.last_time_ns > 0)
      points.push_back({.labels = {std::to_string(each.xid)},
                        .number = static_cast<uint64_t>(each.last_time_ns)});
  }
  return points;
}

std::vector<Point> last_xid(const Device& device) {
  if (!device.xids) return {};
  const auto last = std::ranges::max_element(*device.xids, {}, &XidCount::last_time_ns);
  if (last == device.xids->end() || last->xid == 0) return {{.labels = {""}, .number = 0}};
  return {{.labels = {std::to_string(last->xid)}, .number = last->xid}};
}

std::vector<Point> instance_info(const gpu::MigInstance& instance) {
  return {{.labels = {std::to_string(instance.compute_instance), instance.uuid.value_or(""),
                      instance.profile.value_or("")},
           .number = 1}};
}

std::vector<Point> process_info(const Process& process) {
  const ProcessFacts& facts = *process.facts;
  const Pod pod = facts.pod.value_or(Pod());
  return {
      {.labels = {facts.user.value_or(""), program_name(facts.command.value_or("")),
                  facts.container ? facts.container->id.substr(0, kShortId) : "",
                  pod.space.value_or(""), pod.name.value_or(pod.uid), facts.slurm_job.value_or("")},
       .number = 1}};
}

}  // namespace vram::watch::figures
