#include "show/device_words.hpp"

#include "show/draw/bar.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace vram::show {

Line memory_bar(const gpu::DeviceMemory& memory, const std::optional<int64_t>& unattributed,
                int columns) {
  if (!memory.total_bytes || !memory.used_bytes) return Line(kUnknown);
  const uint64_t used = std::min(*memory.used_bytes, *memory.total_bytes);
  const uint64_t reserved = std::min(memory.reserved_bytes.value_or(0), *memory.total_bytes - used);
  const uint64_t nobodys =
      std::min(static_cast<uint64_t>(std::max<int64_t>(unattributed.value_or(0), 0)), used);
  const BarPart parts[] = {{used - nobodys, "█", Style::kActive},
                           {nobodys, "▓", Style::kWarning},
                           {reserved, "░", Style::kReserved},
                           {*memory.total_bytes - used - reserved, "·", Style::kFaint}};
  return stacked_bar(parts, columns);
}

Line memory_bar_legend(int columns) {
  constexpr int kWithOwner = 62;
  return Line("█", Style::kActive)
      .add(" used  ")
      .add("▓", Style::kWarning)
      .add(" used, unattributed  ")
      .add("░", Style::kReserved)
      .add(columns < kWithOwner ? " reserved  " : " reserved by the driver  ")
      .add("·", Style::kFaint)
      .add(" free");
}

std::string power_text(const watch::Device& device, bool with_limit) {
  std::string power = watts_text(device.sample.milliwatts);
  const auto& limit = device.identity.power_limit_milliwatts;
  if (!with_limit || !limit) return power;
  return power + " / " + watts_text(limit);
}

void add_instance_rows(
    const watch::Device& device,
    const std::function<void(const gpu::DeviceMemory&, std::vector<Line>&)>& add_memory,
    Table& table) {
  std::set<uint32_t> seen;
  for (const gpu::MigInstance& each : device.health.mig_instances) {
    std::vector<Line> cells = {
        Line(), Line(fmt::format("MIG {}/{} {}", each.gpu_instance, each.compute_instance,
                                 name_text(each.profile)))};
    if (seen.insert(each.gpu_instance).second) {
      add_memory(each.memory, cells);
    } else {
      cells.insert(cells.end(), {Line(), Line("shared", Style::kFaint)});
    }
    table.add_row(std::move(cells));
  }
}

}  // namespace vram::show
