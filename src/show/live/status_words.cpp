#include "show/live/status_words.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace vram::show {
namespace {

constexpr size_t kShortId = 12;

std::string with_unit(const std::optional<uint32_t>& value, std::string_view unit) {
  return value ? fmt::format("{} {}", *value, unit) : std::string(kUnknown);
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

bool is_significant(const std::optional<int64_t>& bytes) {
  return bytes && magnitude(*bytes) > kFewBytes;
}

uint64_t saturated_sum(uint64_t a, uint64_t b) {
  return a + std::min(b, std::numeric_limits<uint64_t>::max() - a);
}

uint64_t cached_on(const watch::Snapshot& snapshot, uint32_t device) {
  uint64_t cached = 0;
  for (const watch::Process& process : snapshot.processes) {
    for (const watch::Use& use : process.uses) {
      if (use.device == device && use.allocator)
        cached = saturated_sum(cached, use.allocator->cached_bytes.value_or(0));
    }
  }
  return cached;
}

std::string joined(const std::vector<std::string>& words) {
  return printable(fmt::format("{}", fmt::join(words, tr(", "))));
}

void add_memory_remarks(const gpu::DeviceHealth& health, std::vector<Remark>& remarks) {
  if (const auto errors = health.ecc_since_boot.uncorrected; errors && *errors > 0)
    remarks.push_back({"✖ ",
                       trf("uncorrected memory errors since the driver was loaded: {}", *errors),
                       Style::kBad});
  const gpu::RetiredPages pages = health.retired_pages.value_or(gpu::RetiredPages{});
  if (pages.has_failed.value_or(false))
    remarks.push_back({"✖ ", tr("a bad page of the memory could not be retired"), Style::kBad});
  if (pages.is_pending.value_or(false))
    remarks.push_back(
        {"▲ ", tr("a bad page of the memory waits to be retired, by a reset"), Style::kWarning});
  if (!health.remapped_rows) return;
  if (health.remapped_rows->has_failed)
    remarks.push_back({"✖ ", tr("a bad row of the memory could not be remapped"), Style::kBad});
  if (health.remapped_rows->is_pending)
    remarks.push_back(
        {"▲ ", tr("a remapped row of the memory waits for a reset"), Style::kWarning});
}

void add_xid_remarks(const watch::Device& device, std::vector<Remark>& remarks) {
  if (!device.xids) return;
  for (const watch::XidCount& fault : *device.xids) {
    remarks.push_back({"✖ ", tr("the driver told of Xid ") + xid_text(fault), Style::kBad});
  }
}

void add_sample_remarks(const watch::Device& device, std::vector<Remark>& remarks) {
  const auto& reasons = device.sample.throttle_reasons;
  if (reasons && !reasons->empty())
    remarks.push_back({"▲ ", tr("clocks held down: ") + joined(*reasons), Style::kWarning});
  if (is_significant(device.unaccounted_bytes))
    remarks.push_back({"▲ ",
                       trf("the driver's figures don't add up: the total is {} {} than used, "
                           "reserved and free together",
                           format_bytes(magnitude(*device.unaccounted_bytes)),
                           *device.unaccounted_bytes > 0 ? tr("more") : tr("less")),
                       Style::kWarning});
}

}  // namespace

std::string count_text(const std::optional<uint64_t>& count) {
  return count ? format_count(*count) : std::string(kUnknown);
}

std::string duration_text(const std::optional<uint64_t>& duration_ns) {
  if (!duration_ns) return std::string(kUnknown);
  return format_duration_ns(static_cast<int64_t>(std::min(*duration_ns, uint64_t{INT64_MAX})));
}

std::string bytes_text(const std::optional<uint64_t>& bytes) {
  return bytes ? format_bytes(*bytes) : std::string(kUnknown);
}

std::string percent_text(const std::optional<uint32_t>& percent) { return with_unit(percent, "%"); }

std::string celsius_text(const std::optional<uint32_t>& celsius) { return with_unit(celsius, "C"); }

std::string watts_text(const std::optional<uint32_t>& milliwatts) {
  if (!milliwatts) return std::string(kUnknown);
  return fmt::format("{} W", (uint64_t{*milliwatts} + 500) / 1'000);
}

std::string mhz_text(const std::optional<uint32_t>& mhz) { return with_unit(mhz, "MHz"); }

std::string name_text(const std::optional<std::string>& text) {
  return text && !text->empty() ? printable(*text) : std::string(kUnknown);
}

std::string xid_text(const watch::XidCount& fault) {
  const std::string often =
      fault.count == 1 ? tr("once, at") : trf("{} times, last at", fault.count);
  return fmt::format("{}, {} {}", fault.xid, often, clock_text(fault.last_time_ns));
}

bool is_visible(const watch::ProcessFacts& facts) {
  return facts.start_ticks || facts.user || facts.command;
}

std::string place_text(const watch::ProcessFacts& facts) {
  if (facts.pod) {
    const std::string name = printable(facts.pod->name.value_or(facts.pod->uid));
    return tr("pod ") + (facts.pod->space ? printable(*facts.pod->space) + "/" + name : name);
  }
  if (facts.slurm_job) return tr("slurm ") + printable(*facts.slurm_job);
  if (!facts.container) return "";
  const std::string runtime = printable(facts.container->runtime);
  return (runtime.empty() ? tr("container") : runtime) + " " + short_id(*facts.container);
}

std::string short_id(const watch::Container& container) {
  return printable(container.id.substr(0, kShortId));
}

std::vector<Remark> remarks(const watch::Device& device) {
  std::vector<Remark> result;
  if (device.sample.trouble)
    result.push_back({"✖ ", printable(*device.sample.trouble), Style::kBad});
  const auto& action = device.health.recovery_action;
  if (action && !action->empty() && *action != "none")
    result.push_back({"✖ ", tr("the driver asks for: ") + printable(*action), Style::kBad});
  add_xid_remarks(device, result);
  add_memory_remarks(device.health, result);
  add_sample_remarks(device, result);
  if (device.sample.is_asleep)
    result.push_back({"", tr("asleep: powered down, and not woken to be asked"), Style::kFaint});
  return result;
}

std::string unattributed_text(const watch::Device& device) {
  if (!is_significant(device.unattributed_bytes)) return "";
  const int64_t bytes = *device.unattributed_bytes;
  const std::string size = format_bytes(magnitude(bytes));
  if (bytes > 0) {
    return size +
           tr(" unattributed: used by no process that the driver names (contexts it hides, managed "
              "memory, the driver itself)");
  }
  return size +
         tr(" too many: the processes' figures come to that much more than is used (memory that "
            "they share counts for each)");
}

std::string cleaning_text(const watch::Snapshot& snapshot) {
  uint64_t whole = 0;
  std::string places;
  for (const watch::Device& device : snapshot.devices) {
    const uint64_t cached = cached_on(snapshot, device.identity.index);
    if (cached <= kFewBytes) continue;
    whole = saturated_sum(whole, cached);
    places += trf("{}{} on GPU {}", places.empty() ? "" : tr(", "), format_bytes(cached),
                  device.identity.index);
  }
  if (places.empty()) return "";
  return trf("a cleaning would give {} back, cached by allocators: {}", format_bytes(whole),
             places);
}

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
      .add(tr(" used  "))
      .add("▓", Style::kWarning)
      .add(tr(" used, unattributed  "))
      .add("░", Style::kReserved)
      .add(columns < kWithOwner ? tr(" reserved  ") : tr(" reserved by the driver  "))
      .add("·", Style::kFaint)
      .add(tr(" free"));
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
      cells.insert(cells.end(), {Line(), Line(tr("shared"), Style::kFaint)});
    }
    table.add_row(std::move(cells));
  }
}

std::string user_text(const watch::ProcessFacts& facts) {
  if (!facts.user && facts.uid) return std::to_string(*facts.uid);
  return name_text(facts.user);
}

std::string known_place_text(const watch::ProcessFacts& facts) {
  std::string text = place_text(facts);
  if (text.empty() && !is_visible(facts)) text = kUnknown;
  return text;
}

std::string instance_text(const gpu::DeviceProcess& process) {
  if (!process.gpu_instance) return std::string(kUnknown);
  if (!process.compute_instance) return std::to_string(*process.gpu_instance);
  return fmt::format("{}/{}", *process.gpu_instance, *process.compute_instance);
}

std::string step_time_text(const watch::Process& process) {
  if (!process.step_ns) return std::string(kUnknown);
  return format_duration_ns(static_cast<int64_t>(std::min(*process.step_ns, uint64_t{INT64_MAX})));
}

std::string command_text(const watch::ProcessFacts& facts) {
  if (!is_visible(facts)) return tr("hidden: gone, or in another pid namespace");
  const std::string command = name_text(facts.command);
  const size_t folder = command.substr(0, command.find(' ')).rfind('/');
  return folder == std::string::npos ? command : command.substr(folder + 1);
}

}  // namespace vram::show
