#include "show/status_detail.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "show/page.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show {
namespace {

using watch::Device;

constexpr int kStep = 2;
constexpr int kValueColumn = 30;

// A page of names and values; sections indent what stands below them.
class Sheet {
 public:
  explicit Sheet(Page& page) : page_(page) {}

  void open(std::string_view title, Style style = Style::kPlain) {
    page_.add(Line().pad_to(indent_).add(title, style));
    indent_ += kStep;
  }
  void close() { indent_ -= kStep; }
  void add_entry(std::string_view name, const std::string& value) {
    page_.paragraph(Line().pad_to(indent_).add(name, Style::kFaint).add("  ").pad_to(kValueColumn),
                    value);
  }
  [[nodiscard]] Page& page() { return page_; }

 private:
  Page& page_;
  int indent_ = 0;
};

// To the byte, since that is what one compares with other tools.
std::string exact_bytes(const std::optional<uint64_t>& bytes) {
  if (!bytes) return std::string(kUnknown);
  if (*bytes < kKiB) return format_bytes(*bytes);
  return fmt::format("{} ({} B)", format_bytes(*bytes), format_count(*bytes));
}

std::string exact_rate(const std::optional<uint64_t>& bytes_per_second) {
  if (!bytes_per_second) return std::string(kUnknown);
  std::string rate = format_bytes(*bytes_per_second) + "/s";
  if (*bytes_per_second < kKiB) return rate;
  return fmt::format("{} ({} B/s)", rate, format_count(*bytes_per_second));
}

std::string exact_signed(const std::optional<int64_t>& bytes) {
  if (!bytes) return std::string(kUnknown);
  const uint64_t size = *bytes < 0 ? 0 - static_cast<uint64_t>(*bytes) : uint64_t(*bytes);
  if (size < kKiB) return format_bytes_signed(*bytes);
  return fmt::format("{} ({}{} B)", format_bytes_signed(*bytes), *bytes < 0 ? "-" : "+",
                     format_count(size));
}

std::string number_text(const std::optional<uint32_t>& number) {
  return number ? std::to_string(*number) : std::string(kUnknown);
}

std::string yes_text(const std::optional<bool>& value) {
  if (!value) return std::string(kUnknown);
  return *value ? "yes" : "no";
}

void draw_memory(std::string_view title, const gpu::DeviceMemory& memory, Sheet& sheet) {
  sheet.open(title);
  sheet.add_entry("total", exact_bytes(memory.total_bytes));
  sheet.add_entry("reserved", exact_bytes(memory.reserved_bytes));
  sheet.add_entry("used", exact_bytes(memory.used_bytes));
  sheet.add_entry("free", exact_bytes(memory.free_bytes));
  sheet.close();
}

void draw_identity(const Device& device, Sheet& sheet) {
  const gpu::DeviceIdentity& identity = device.identity;
  sheet.add_entry("vendor", std::string(identifier(identity.vendor)));
  sheet.add_entry("name", name_text(identity.name));
  sheet.add_entry("UUID", name_text(identity.uuid));
  sheet.add_entry("PCI", name_text(identity.pci_id));
  sheet.add_entry("driver", name_text(identity.driver));
  sheet.add_entry("NUMA node", number_text(identity.numa_node));
  sheet.add_entry("compute mode", name_text(device.health.compute_mode));
  sheet.add_entry("persistence", yes_text(device.health.is_persistent));
  sheet.add_entry("MIG", yes_text(device.health.is_mig));
}

void draw_memories(const Device& device, Sheet& sheet) {
  draw_memory("memory", device.sample.memory, sheet);
  const gpu::DeviceMemory& host = device.sample.host_memory;
  if (host.total_bytes || host.used_bytes) draw_memory("host memory that it may use", host, sheet);
  sheet.add_entry("unattributed", exact_signed(device.unattributed_bytes));
  sheet.add_entry("unaccounted", exact_signed(device.unaccounted_bytes));
  draw_memory("BAR1", device.health.bar1.value_or(gpu::DeviceMemory()), sheet);
}

std::string reasons_text(const std::optional<std::vector<std::string>>& reasons) {
  if (!reasons) return std::string(kUnknown);
  return reasons->empty() ? "no" : printable(fmt::format("{}", fmt::join(*reasons, ", ")));
}

void draw_traffic(const Device& device, Sheet& sheet) {
  const gpu::DeviceSample& sample = device.sample;
  sheet.open("traffic");
  sheet.add_entry("PCIe sending", exact_rate(device.pcie_sent_bytes_per_second));
  sheet.add_entry("PCIe receiving", exact_rate(device.pcie_received_bytes_per_second));
  sheet.add_entry("PCIe sent", exact_bytes(sample.pcie_sent_bytes));
  sheet.add_entry("PCIe received", exact_bytes(sample.pcie_received_bytes));
  sheet.add_entry("NVLink sending", exact_rate(device.nvlink_sent_bytes_per_second));
  sheet.add_entry("NVLink receiving", exact_rate(device.nvlink_received_bytes_per_second));
  sheet.add_entry("NVLink sent", exact_bytes(sample.nvlink_sent_bytes));
  sheet.add_entry("NVLink received", exact_bytes(sample.nvlink_received_bytes));
  sheet.close();
}

void draw_activity(const Device& device, Sheet& sheet) {
  const gpu::DeviceSample& sample = device.sample;
  sheet.open("activity");
  sheet.add_entry("busy", percent_text(sample.busy_percent));
  sheet.add_entry("memory busy", percent_text(sample.memory_busy_percent));
  sheet.add_entry("memory bandwidth",
                  sample.memory_bandwidth_percent
                      ? percent_text(sample.memory_bandwidth_percent) + " of the peak"
                      : std::string(kUnknown));
  sheet.add_entry("core clock", mhz_text(sample.core_mhz));
  sheet.add_entry("memory clock", mhz_text(sample.memory_mhz));
  sheet.add_entry("clocks held down", reasons_text(sample.throttle_reasons));
  sheet.add_entry("power", watts_text(sample.milliwatts));
  sheet.add_entry("power limit", watts_text(device.identity.power_limit_milliwatts));
  sheet.add_entry("temperature", celsius_text(sample.celsius));
  sheet.add_entry("memory temperature", celsius_text(device.health.memory_celsius));
  sheet.close();
}

std::string ecc_text(const gpu::EccCounts& counts) {
  if (!counts.corrected && !counts.uncorrected) return std::string(kUnknown);
  return fmt::format("{} corrected, {} uncorrected", count_text(counts.corrected),
                     count_text(counts.uncorrected));
}

std::string rows_text(const std::optional<gpu::RemappedRows>& rows) {
  if (!rows) return std::string(kUnknown);
  return fmt::format("{} for corrected errors, {} for uncorrected{}{}", rows->corrected,
                     rows->uncorrected, rows->is_pending ? "; waiting for a reset" : "",
                     rows->has_failed ? "; one could not be remapped" : "");
}

std::string pages_text(const std::optional<gpu::RetiredPages>& pages) {
  if (!pages) return std::string(kUnknown);
  std::vector<std::string> texts;
  if (pages->corrected) texts.push_back(fmt::format("{} for corrected errors", *pages->corrected));
  if (pages->uncorrected) texts.push_back(fmt::format("{} for uncorrected", *pages->uncorrected));
  if (pages->of_any_cause)
    texts.push_back(fmt::format("{} for causes not told", *pages->of_any_cause));
  return fmt::format("{}{}{}", texts.empty() ? kUnknown : fmt::format("{}", fmt::join(texts, ", ")),
                     pages->is_pending.value_or(false) ? "; one waits for a reset" : "",
                     pages->has_failed.value_or(false) ? "; one could not be retired" : "");
}

std::string xids_text(const std::optional<std::vector<watch::XidCount>>& counts) {
  if (!counts) return std::string(kUnknown);
  std::vector<std::string> texts;
  for (const watch::XidCount& each : *counts) texts.push_back(xid_text(each));
  return texts.empty() ? "none since this program began"
                       : fmt::format("{}", fmt::join(texts, "; "));
}

void draw_errors(const Device& device, Sheet& sheet) {
  const gpu::DeviceHealth& health = device.health;
  sheet.open("errors");
  sheet.add_entry("Xid", xids_text(device.xids));
  sheet.add_entry("ECC since boot", ecc_text(health.ecc_since_boot));
  sheet.add_entry("ECC ever", ecc_text(health.ecc_ever));
  sheet.add_entry("remapped rows", rows_text(health.remapped_rows));
  sheet.add_entry("retired pages", pages_text(health.retired_pages));
  sheet.add_entry("driver asks for", name_text(health.recovery_action));
  sheet.close();
}

void draw_instances(const gpu::DeviceHealth& health, Sheet& sheet) {
  for (const gpu::MigInstance& each : health.mig_instances) {
    sheet.open(fmt::format("MIG instance {}/{}", each.gpu_instance, each.compute_instance));
    sheet.add_entry("profile", name_text(each.profile));
    sheet.add_entry("UUID", name_text(each.uuid));
    draw_memory("memory, of its GPU instance", each.memory, sheet);
    sheet.close();
  }
}

std::string kind_text(const gpu::DeviceProcess& process) {
  if (process.is_compute) {
    const std::string compute = process.is_mps ? "compute (MPS client)" : "compute";
    return process.is_graphics ? compute + ", graphics" : compute;
  }
  return process.is_graphics ? "graphics" : std::string(kUnknown);
}

void draw_facts(const watch::ProcessFacts& facts, Sheet& sheet) {
  if (!is_visible(facts)) {
    sheet.add_entry("process", "hidden: gone, or in another pid namespace");
    return;
  }
  sheet.add_entry("user", name_text(facts.user));
  sheet.add_entry("user id", number_text(facts.uid));
  sheet.add_entry("parent", number_text(facts.parent_pid));
  sheet.add_entry("command", name_text(facts.command));
  if (facts.container)
    sheet.add_entry("container",
                    printable(facts.container->id + (facts.container->runtime.empty() ? "" : ", ") +
                              facts.container->runtime));
  if (facts.pod) {
    sheet.add_entry("pod", name_text(facts.pod->name));
    sheet.add_entry("namespace", name_text(facts.pod->space));
    sheet.add_entry("pod UID", name_text(facts.pod->uid));
  }
  if (facts.slurm_job) sheet.add_entry("Slurm job", name_text(facts.slurm_job));
}

void draw_allocator(const watch::Process& process, const watch::Use& use, Sheet& sheet) {
  if (use.allocator) {
    sheet.open("allocator");
    sheet.add_entry("allocated", exact_bytes(use.allocator->allocated_bytes));
    sheet.add_entry("reserved", exact_bytes(use.allocator->reserved_bytes));
    sheet.add_entry("cached", exact_bytes(use.allocator->cached_bytes));
    sheet.add_entry("peak allocated", exact_bytes(use.allocator->peak_bytes));
    sheet.close();
  }
  if (process.step) sheet.add_entry("step", format_count(*process.step));
  if (process.step_ns) sheet.add_entry("step time", duration_text(process.step_ns));
  if (process.scope) sheet.add_entry("scope", name_text(process.scope));
}

void draw_process(const watch::Process& process, const watch::Use& use, Sheet& sheet) {
  sheet.open(fmt::format("process {}", process.facts->pid), Style::kStrong);
  draw_facts(*process.facts, sheet);
  if (use.process.gpu_instance)
    sheet.add_entry("MIG instance", fmt::format("{}/{}", *use.process.gpu_instance,
                                                number_text(use.process.compute_instance)));
  sheet.add_entry("kind", kind_text(use.process));
  sheet.add_entry("memory", exact_bytes(use.process.used_bytes));
  if (use.process.host_bytes) sheet.add_entry("host memory", exact_bytes(use.process.host_bytes));
  sheet.add_entry("busy", percent_text(use.process.busy_percent));
  if (use.process.busy_ns) sheet.add_entry("busy time", duration_text(use.process.busy_ns));
  draw_allocator(process, use, sheet);
  sheet.close();
}

void draw_process_table(const watch::Snapshot& snapshot, const Device& device, Sheet& sheet) {
  bool any = false;
  for (const watch::Process& process : snapshot.processes) {
    for (const watch::Use& use : process.uses) {
      if (use.device != device.identity.index) continue;
      draw_process(process, use, sheet);
      any = true;
    }
  }
  if (!any) sheet.add_entry("processes", device.sample.processes ? "none" : std::string(kUnknown));
}

void draw_device(const watch::Snapshot& snapshot, const Device& device, Sheet& sheet) {
  sheet.page().blank();
  sheet.open(fmt::format("GPU {}", device.identity.index), Style::kHeading);
  for (const Remark& remark : remarks(device))
    sheet.page().paragraph(Line().pad_to(kStep).add(remark.mark, remark.style), remark.text,
                           remark.style);
  draw_identity(device, sheet);
  draw_memories(device, sheet);
  draw_activity(device, sheet);
  draw_traffic(device, sheet);
  draw_errors(device, sheet);
  draw_instances(device.health, sheet);
  draw_process_table(snapshot, device, sheet);
  sheet.close();
}

}  // namespace

std::string draw_status_detail(const watch::Snapshot& snapshot, const TextOptions& options) {
  Page page(options);
  Sheet sheet(page);
  sheet.add_entry("host", name_text(snapshot.host));
  sheet.add_entry("time", clock_text(snapshot.time_ns));
  sheet.add_entry("GPUs", std::to_string(snapshot.devices.size()));
  for (const Device& device : snapshot.devices) draw_device(snapshot, device, sheet);
  if (!snapshot.notes.empty()) page.blank();
  for (const std::string& note : snapshot.notes)
    page.paragraph(Line("note  ", Style::kFaint), printable(note));
  return page.finish();
}

}  // namespace vram::show
