#include "show/status_objects.hpp"

#include "show/status_words.hpp"

#include <set>

namespace vram::show {
namespace {

Json json_memory(const gpu::DeviceMemory& memory) {
  return {{"total_bytes", json_or_null(memory.total_bytes)},
          {"used_bytes", json_or_null(memory.used_bytes)},
          {"free_bytes", json_or_null(memory.free_bytes)},
          {"reserved_bytes", json_or_null(memory.reserved_bytes)}};
}

Json json_ecc(const gpu::EccCounts& counts) {
  return {{"corrected", json_or_null(counts.corrected)},
          {"uncorrected", json_or_null(counts.uncorrected)}};
}

Json json_rows(const std::optional<gpu::RemappedRows>& rows) {
  if (!rows) return {};
  return {{"corrected", rows->corrected},
          {"uncorrected", rows->uncorrected},
          {"is_pending", rows->is_pending},
          {"has_failed", rows->has_failed}};
}

Json json_pages(const std::optional<gpu::RetiredPages>& pages) {
  if (!pages) return {};
  return {{"corrected", json_or_null(pages->corrected)},
          {"uncorrected", json_or_null(pages->uncorrected)},
          {"of_any_cause", json_or_null(pages->of_any_cause)},
          {"is_pending", json_or_null(pages->is_pending)},
          {"has_failed", json_or_null(pages->has_failed)}};
}

Json json_instances(const std::vector<gpu::MigInstance>& instances) {
  Json json = Json::array();
  for (const gpu::MigInstance& each : instances) {
    json.push_back({{"gpu_instance", each.gpu_instance},
                    {"compute_instance", each.compute_instance},
                    {"uuid", json_text_or_null(each.uuid)},
                    {"profile", json_text_or_null(each.profile)},
                    {"memory", json_memory(each.memory)}});
  }
  return json;
}

// A process on several instances of MIG is one.
Json json_process_count(const gpu::DeviceSample& sample) {
  if (!sample.processes) return {};
  std::set<uint32_t> pids;
  for (const gpu::DeviceProcess& process : *sample.processes) pids.insert(process.pid);
  return pids.size();
}

Json json_identity(const gpu::DeviceIdentity& identity) {
  return {{"index", identity.index},
          {"vendor", identifier(identity.vendor)},
          {"name", json_text_or_null(identity.name)},
          {"uuid", json_text_or_null(identity.uuid)},
          {"pci_id", json_text_or_null(identity.pci_id)},
          {"driver", json_text_or_null(identity.driver)},
          {"numa_node", json_or_null(identity.numa_node)},
          {"power_limit_milliwatts", json_or_null(identity.power_limit_milliwatts)}};
}

Json json_sample(const gpu::DeviceSample& sample) {
  return {
      {"is_asleep", sample.is_asleep},
      {"trouble", json_text_or_null(sample.trouble)},
      {"memory", json_memory(sample.memory)},
      {"process_count", json_process_count(sample)},
      {"busy_percent", json_or_null(sample.busy_percent)},
      {"memory_busy_percent", json_or_null(sample.memory_busy_percent)},
      {"memory_bandwidth_percent", json_or_null(sample.memory_bandwidth_percent)},
      {"temperature_celsius", json_or_null(sample.celsius)},
      {"power_milliwatts", json_or_null(sample.milliwatts)},
      {"core_mhz", json_or_null(sample.core_mhz)},
      {"memory_mhz", json_or_null(sample.memory_mhz)},
      {"throttle_reasons", sample.throttle_reasons ? json_texts(*sample.throttle_reasons) : Json()},
      {"pcie_sent_bytes", json_or_null(sample.pcie_sent_bytes)},
      {"pcie_received_bytes", json_or_null(sample.pcie_received_bytes)},
      {"nvlink_sent_bytes", json_or_null(sample.nvlink_sent_bytes)},
      {"nvlink_received_bytes", json_or_null(sample.nvlink_received_bytes)}};
}

Json json_rates(const watch::Device& device) {
  return {
      {"pcie_sent_bytes_per_second", json_or_null(device.pcie_sent_bytes_per_second)},
      {"pcie_received_bytes_per_second", json_or_null(device.pcie_received_bytes_per_second)},
      {"nvlink_sent_bytes_per_second", json_or_null(device.nvlink_sent_bytes_per_second)},
      {"nvlink_received_bytes_per_second", json_or_null(device.nvlink_received_bytes_per_second)}};
}

// Of devices that may use none nothing is known.
Json json_host_memory(const gpu::DeviceMemory& memory) {
  return memory.total_bytes || memory.used_bytes ? json_memory(memory) : Json();
}

Json json_health(const gpu::DeviceHealth& health) {
  return {{"bar1", health.bar1 ? json_memory(*health.bar1) : Json()},
          {"memory_temperature_celsius", json_or_null(health.memory_celsius)},
          {"ecc_since_boot", json_ecc(health.ecc_since_boot)},
          {"ecc_ever", json_ecc(health.ecc_ever)},
          {"remapped_rows", json_rows(health.remapped_rows)},
          {"retired_pages", json_pages(health.retired_pages)},
          {"recovery_action", json_text_or_null(health.recovery_action)},
          {"compute_mode", json_text_or_null(health.compute_mode)},
          {"is_persistent", json_or_null(health.is_persistent)},
          {"is_mig", json_or_null(health.is_mig)},
          {"mig_instances", json_instances(health.mig_instances)}};
}

Json json_container(const std::optional<watch::Container>& container) {
  if (!container) return {};
  return {{"runtime", json_text_or_null(container->runtime)}, {"id", json_text(container->id)}};
}

Json json_pod(const std::optional<watch::Pod>& pod) {
  if (!pod) return {};
  return {{"uid", json_text(pod->uid)},
          {"name", json_text_or_null(pod->name)},
          {"namespace", json_text_or_null(pod->space)}};
}

Json json_allocator(const std::optional<watch::AllocatorFigures>& figures) {
  if (!figures) return {};
  return {{"allocated_bytes", json_or_null(figures->allocated_bytes)},
          {"reserved_bytes", json_or_null(figures->reserved_bytes)},
          {"cached_bytes", json_or_null(figures->cached_bytes)},
          {"peak_bytes", json_or_null(figures->peak_bytes)}};
}

Json json_uses(const std::vector<watch::Use>& uses) {
  Json json = Json::array();
  for (const watch::Use& use : uses) {
    json.push_back({{"device", use.device},
                    {"gpu_instance", json_or_null(use.process.gpu_instance)},
                    {"compute_instance", json_or_null(use.process.compute_instance)},
                    {"is_compute", use.process.is_compute},
                    {"is_graphics", use.process.is_graphics},
                    {"is_mps", use.process.is_mps},
                    {"used_bytes", json_or_null(use.process.used_bytes)},
                    {"host_bytes", json_or_null(use.process.host_bytes)},
                    {"busy_percent", json_or_null(use.process.busy_percent)},
                    {"busy_ns", json_or_null(use.process.busy_ns)},
                    {"allocator", json_allocator(use.allocator)}});
  }
  return json;
}

Json json_xids(const std::optional<std::vector<watch::XidCount>>& counts) {
  if (!counts) return {};
  Json xids = Json::array();
  for (const watch::XidCount& each : *counts) {
    xids.push_back(
        {{"xid", each.xid}, {"count", each.count}, {"last_time_unix_ns", each.last_time_ns}});
  }
  return xids;
}

}  // namespace

Json json_device(const watch::Device& device) {
  Json json = json_identity(device.identity);
  json.update(json_sample(device.sample));
  json["host_memory"] = json_host_memory(device.sample.host_memory);
  json.update(json_rates(device));
  json["unattributed_bytes"] = json_or_null(device.unattributed_bytes);
  json["unaccounted_bytes"] = json_or_null(device.unaccounted_bytes);
  json.update(json_health(device.health));
  json["xids"] = json_xids(device.xids);
  return json;
}

Json json_process(const watch::Process& process) {
  const watch::ProcessFacts& facts = *process.facts;
  return {{"pid", facts.pid},
          {"start_ticks", json_or_null(facts.start_ticks)},
          {"parent_pid", json_or_null(facts.parent_pid)},
          {"uid", json_or_null(facts.uid)},
          {"user", json_text_or_null(facts.user)},
          {"command", json_text_or_null(facts.command)},
          {"container", json_container(facts.container)},
          {"pod", json_pod(facts.pod)},
          {"slurm_job", json_text_or_null(facts.slurm_job)},
          {"step", json_or_null(process.step)},
          {"step_ns", json_or_null(process.step_ns)},
          {"scope", json_text_or_null(process.scope)},
          {"uses", json_uses(process.uses)}};
}

}  // namespace vram::show
