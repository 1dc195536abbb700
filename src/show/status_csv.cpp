#include "show/status_csv.hpp"

#include "base/text.hpp"

#include <concepts>
#include <optional>
#include <string_view>
#include <utility>

namespace vram::show {
namespace {

using watch::Device;

constexpr std::string_view kLineEnd = "\r\n";

// One line, field by field. Heads and rows are written by the same calls, so they can't disagree.
class CsvRow {
 public:
  explicit CsvRow(bool is_head) : is_head_(is_head) {}

  template <std::integral T>
  CsvRow& number(std::string_view name, const std::optional<T>& value) {
    return add(name, value ? std::to_string(*value) : "");
  }
  CsvRow& flag(std::string_view name, const std::optional<bool>& value) {
    return add(name, value ? (*value ? "1" : "0") : "");
  }
  CsvRow& text(std::string_view name, const std::optional<std::string>& value) {
    return add(name, value ? quoted(harmless(printable(*value))) : "");
  }
  [[nodiscard]] std::string finish() && { return std::move(line_ += kLineEnd); }

 private:
  static std::string harmless(std::string text) {
    const bool is_formula =
        !text.empty() && std::string_view("=+-@").find(text.front()) != std::string_view::npos;
    return is_formula ? "'" + text : text;
  }
  // Readers may strip spaces around a bare field.
  static std::string quoted(const std::string& text) {
    const bool is_padded = text.starts_with(' ') || text.ends_with(' ');
    if (!is_padded && text.find_first_of(",\"") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text) out.append(c == '"' ? 2 : 1, c);
    return out + "\"";
  }
  CsvRow& add(std::string_view name, std::string_view value) {
    if (!is_first_) line_ += ',';
    is_first_ = false;
    line_ += is_head_ ? name : value;
    return *this;
  }

  bool is_head_;
  bool is_first_ = true;
  std::string line_;
};

void add_device(const Device& device, CsvRow& row) {
  const gpu::DeviceSample& sample = device.sample;
  row.number("device", std::optional(device.identity.index))
      .text("device_name", device.identity.name)
      .text("device_uuid", device.identity.uuid)
      .text("device_pci_id", device.identity.pci_id)
      .number("device_total_bytes", sample.memory.total_bytes)
      .number("device_used_bytes", sample.memory.used_bytes)
      .number("device_reserved_bytes", sample.memory.reserved_bytes)
      .number("device_free_bytes", sample.memory.free_bytes)
      .number("device_unattributed_bytes", device.unattributed_bytes)
      .number("device_busy_percent", sample.busy_percent)
      .number("device_temperature_celsius", sample.celsius)
      .number("device_power_milliwatts", sample.milliwatts)
      .flag("device_is_asleep", sample.is_asleep)
      .text("device_trouble", sample.trouble);
}

void add_figures(const watch::Process& process, const watch::Use& use, CsvRow& row) {
  const watch::AllocatorFigures figures = use.allocator.value_or(watch::AllocatorFigures());
  row.number("gpu_instance", use.process.gpu_instance)
      .number("compute_instance", use.process.compute_instance)
      .number("used_bytes", use.process.used_bytes)
      .number("host_bytes", use.process.host_bytes)
      .number("busy_percent", use.process.busy_percent)
      .number("allocated_bytes", figures.allocated_bytes)
      .number("reserved_bytes", figures.reserved_bytes)
      .number("cached_bytes", figures.cached_bytes)
      .number("peak_bytes", figures.peak_bytes)
      .number("step", process.step)
      .number("step_ns", process.step_ns)
      .text("scope", process.scope);
}

void add_facts(const watch::ProcessFacts& facts, CsvRow& row) {
  const auto pod = facts.pod.value_or(watch::Pod());
  const auto container = facts.container.value_or(watch::Container());
  row.text("user", facts.user)
      .text("container_runtime", container.runtime)
      .text("container_id", container.id)
      .text("pod_namespace", pod.space)
      .text("pod_name", pod.name)
      .text("pod_uid", pod.uid)
      .text("slurm_job", facts.slurm_job)
      .text("command", facts.command);
}

// What came later stands last: columns keep their places.
void add_later_columns(const Device& device, const gpu::DeviceProcess* process, CsvRow& row) {
  row.flag("is_mps", process != nullptr ? std::optional(process->is_mps) : std::nullopt)
      .number("device_memory_bandwidth_percent", device.sample.memory_bandwidth_percent)
      .number("device_pcie_sent_bytes_per_second", device.pcie_sent_bytes_per_second)
      .number("device_pcie_received_bytes_per_second", device.pcie_received_bytes_per_second)
      .number("device_nvlink_sent_bytes_per_second", device.nvlink_sent_bytes_per_second)
      .number("device_nvlink_received_bytes_per_second", device.nvlink_received_bytes_per_second)
      .number("device_host_total_bytes", device.sample.host_memory.total_bytes)
      .number("device_host_used_bytes", device.sample.host_memory.used_bytes);
}

// Without a process its columns are empty.
std::string row_of(const watch::Snapshot& snapshot, const Device& device,
                   const watch::Process* process, const watch::Use& use, bool is_head = false) {
  static const watch::Process kNobody;
  CsvRow row(is_head);
  row.number("time_unix_ns", snapshot.time_ns == 0 ? std::nullopt : std::optional(snapshot.time_ns))
      .text("host", snapshot.host);
  add_device(device, row);
  row.number("pid", process != nullptr ? std::optional(process->facts->pid) : std::nullopt);
  add_figures(process != nullptr ? *process : kNobody, use, row);
  add_facts(process != nullptr ? *process->facts : *kNobody.facts, row);
  add_later_columns(device, process != nullptr ? &use.process : nullptr, row);
  return std::move(row).finish();
}

std::string rows_of(const watch::Snapshot& snapshot, const Device& device) {
  std::string rows;
  for (const watch::Process& process : snapshot.processes) {
    for (const watch::Use& use : process.uses) {
      if (use.device == device.identity.index) rows += row_of(snapshot, device, &process, use);
    }
  }
  return rows.empty() ? row_of(snapshot, device, nullptr, {}) : rows;
}

}  // namespace

std::string status_csv_head() { return row_of({}, {}, nullptr, {}, true); }

std::string status_csv(const watch::Snapshot& snapshot) {
  std::string rows;
  for (const Device& device : snapshot.devices) rows += rows_of(snapshot, device);
  return rows;
}

}  // namespace vram::show
