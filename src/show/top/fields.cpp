#include "show/top/fields.hpp"

#include "show/draw/bar.hpp"
#include "show/process_words.hpp"
#include "show/status_words.hpp"

#include <algorithm>
#include <array>

namespace vram::show::top {
namespace {

using Figures = watch::AllocatorFigures;
using watch::Process;
using watch::Use;

std::optional<uint64_t> posted(const Use& use, std::optional<uint64_t> Figures::* member) {
  return use.allocator ? (*use.allocator).*member : std::nullopt;
}

// What the device counts beyond the allocator's reserve: the context, libraries.
std::optional<uint64_t> beyond(const Use& use) {
  const auto reserved = posted(use, &Figures::reserved_bytes);
  const auto& used = use.process.used_bytes;
  if (!reserved || !used || *used < *reserved) return std::nullopt;
  return *used - *reserved;
}

// As nvidia-smi calls them.
std::string type_text(const Use& use) {
  if (use.process.is_mps) return "M+C";
  if (use.process.is_compute && use.process.is_graphics) return "C+G";
  return use.process.is_compute ? "C" : use.process.is_graphics ? "G" : std::string(kUnknown);
}

template <Field kField>
std::string bytes_cell(const Process& process, const Use& use) {
  return bytes_text(figure_of(kField, process, use));
}

constexpr Style kPlain = Style::kPlain;

// size: one table, a field a line.
constexpr std::array kFields = {
    FieldInfo{
        Field::kPid, "pid", "PID", "number of the process", 7, false, 0, true, kPlain,
        [](const Process& process, const Use&) { return std::to_string(process.facts->pid); }},
    FieldInfo{Field::kUser, "user", "USER", "whose it is", 8, false, 3, true, kPlain,
              [](const Process& process, const Use&) { return user_text(*process.facts); }},
    FieldInfo{Field::kGpu, "gpu", "GPU", "the device it uses", 3, false, 0, true, kPlain,
              [](const Process&, const Use& use) { return std::to_string(use.device); }},
    FieldInfo{Field::kMig, "mig", "MIG", "GPU and compute instance", 5, false, 2, false, kPlain,
              [](const Process&, const Use& use) { return instance_text(use.process); }},
    FieldInfo{Field::kType, "type", "TYPE", "C computes, G draws, M+C by MPS", 4, false, 8, true,
              kPlain, [](const Process&, const Use& use) { return type_text(use); }},
    FieldInfo{Field::kMemory, "memory", "MEMORY", "on the device, as its driver counts", 8, true, 0,
              true, Style::kStrong, bytes_cell<Field::kMemory>},
    FieldInfo{Field::kHostMemory, "host", "HOST MEM", "of the host, used through the device", 8,
              true, 7, false, kPlain, bytes_cell<Field::kHostMemory>},
    FieldInfo{
        Field::kBusy, "busy", "BUSY", "share of the device's time", 5, true, 1, false, kPlain,
        [](const Process&, const Use& use) { return percent_text(use.process.busy_percent); }},
    FieldInfo{Field::kAllocated, "allocated", "ALLOCATED", "in tensors, as the process says", 9,
              true, 5, false, Style::kActive, bytes_cell<Field::kAllocated>},
    FieldInfo{Field::kReserved, "reserved", "RESERVED", "taken by its allocator", 8, true, 6, false,
              Style::kReserved, bytes_cell<Field::kReserved>},
    FieldInfo{Field::kCached, "cached", "CACHED",
              "reserved, in no tensor: a cleaning gives it back", 8, true, 5, false, kPlain,
              bytes_cell<Field::kCached>},
    FieldInfo{Field::kPeak, "peak", "PEAK", "the most it had allocated", 8, true, 9, false, kPlain,
              bytes_cell<Field::kPeak>},
    FieldInfo{Field::kBeyond, "beyond", "BEYOND", "memory beyond reserved: context, libraries", 8,
              true, 9, false, kPlain, bytes_cell<Field::kBeyond>},
    FieldInfo{Field::kSplit, "split", "OF THE GPU", "a bar: allocated, cached, beyond", 24, false,
              2, false, kPlain, [](const Process&, const Use&) { return std::string(); }},
    FieldInfo{Field::kStepTime, "step", "STEP", "how long the last step took", 8, true, 6, false,
              kPlain, [](const Process& process, const Use&) { return step_time_text(process); }},
    FieldInfo{Field::kPlace, "in", "RUNS IN", "pod, Slurm job or container", 20, false, 4, false,
              kPlain,
              [](const Process& process, const Use&) { return known_place_text(*process.facts); }},
    FieldInfo{Field::kScope, "scope", "SCOPE", "the region it measured last", 18, false, 9, false,
              kPlain, [](const Process& process, const Use&) { return name_text(process.scope); }},
    FieldInfo{Field::kCommand, "command", "COMMAND", "with its arguments", 12, false, 0, true,
              kPlain,
              [](const Process& process, const Use&) { return command_text(*process.facts); }},
};

}  // namespace

std::span<const FieldInfo> all_fields() { return kFields; }

const FieldInfo& info_of(Field field) { return kFields.at(static_cast<size_t>(field)); }

std::optional<Field> field_named(std::string_view name) {
  const auto* const found = std::ranges::find(kFields, name, &FieldInfo::name);
  return found == kFields.end() ? std::nullopt : std::optional(found->field);
}

std::optional<uint64_t> figure_of(Field field, const Process& process, const Use& use) {
  switch (field) {
    case Field::kMemory:
      return use.process.used_bytes;
    case Field::kHostMemory:
      return use.process.host_bytes;
    case Field::kBusy:
      return use.process.busy_percent;
    case Field::kAllocated:
      return posted(use, &Figures::allocated_bytes);
    case Field::kReserved:
      return posted(use, &Figures::reserved_bytes);
    case Field::kCached:
      return posted(use, &Figures::cached_bytes);
    case Field::kPeak:
      return posted(use, &Figures::peak_bytes);
    case Field::kBeyond:
      return beyond(use);
    case Field::kStepTime:
      return process.step_ns;
    default:
      return std::nullopt;
  }
}

Line split_bar(const Use& use, std::optional<uint64_t> whole_bytes, int columns) {
  const auto allocated = posted(use, &Figures::allocated_bytes);
  const auto reserved = posted(use, &Figures::reserved_bytes);
  if (!allocated || !reserved || !whole_bytes) return Line(kUnknown);
  const uint64_t whole = *whole_bytes;
  const uint64_t in_tensors = std::min(*allocated, whole);
  const uint64_t idle = std::min(*reserved - std::min(*allocated, *reserved), whole - in_tensors);
  const uint64_t other = std::min(beyond(use).value_or(0), whole - in_tensors - idle);
  const BarPart parts[] = {{in_tensors, "█", Style::kActive},
                           {idle, "▒", Style::kWarning},
                           {other, "░", Style::kReserved},
                           {whole - in_tensors - idle - other, "·", Style::kFaint}};
  return stacked_bar(parts, columns);
}

}  // namespace vram::show::top
