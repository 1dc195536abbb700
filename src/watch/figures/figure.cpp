#include "watch/figures/figure.hpp"

#include "base/result.hpp"
#include "watch/figures/device_activity.hpp"
#include "watch/figures/device_health.hpp"
#include "watch/figures/device_identity.hpp"
#include "watch/figures/device_memory.hpp"
#include "watch/figures/process_figures.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace vram::watch::figures {
namespace {

// The place of a cell that follows `after`: behind that cell and those that already follow it.
// Nothing while that cell has no place yet.
std::optional<size_t> place_after(std::string_view after, std::span<const size_t> order,
                                  std::span<const Place> places) {
  size_t place = 0;
  if (after != kFirst) {
    const auto other =
        std::ranges::find(order, after, [&](size_t index) { return places[index].name; });
    if (other == order.end()) return std::nullopt;
    place = static_cast<size_t>(other - order.begin()) + 1;
  }
  while (place < order.size() && places[order[place]].after == after) ++place;
  return place;
}

template <typename T, size_t... Sizes>
constexpr auto joined(const std::array<Figure<T>, Sizes>&... parts) {
  std::array<Figure<T>, (Sizes + ...)> rows;
  size_t size = 0;
  (
      [&] {
        for (const Figure<T>& row : parts) rows.at(size++) = row;
      }(),
      ...);
  return rows;
}

constexpr ObjectType kDeviceType{.name = "device",
                                 .schema = "Device",
                                 .description = "A GPU. Unknown values are null, never 0."};
constexpr ObjectType kMigInstanceType{
    .name = "instance", .schema = "Instance", .description = "A MIG instance."};
constexpr ObjectType kXidCountType{
    .name = "fault", .schema = "Fault", .description = "How often the driver reported a fault."};

constexpr ObjectType kProcessType{
    .name = "process", .schema = "Process", .description = "A process that uses a GPU."};
constexpr ObjectType kUseType{.name = "use",
                              .schema = "Use",
                              .description = "A process on one device, or on one MIG instance."};

constexpr auto kDeviceFigures =
    joined(kIdentityFigures, kMemoryFigures, kActivityFigures, kHostMemoryFigures, kRateFigures,
           kBalanceFigures, kErrorFigures, kModeFigures, kXidFigures);

template <auto Member>
constexpr auto kInstanceMemoryOf = kRead<&MigInstance::memory, Member>;

constexpr Group<MigInstance> kInstanceMemory{
    .key = "memory", .type = &kMemoryType, .meaning = "the `memory` of the GPU instance"};

constexpr auto kInstanceFigures = std::to_array<Figure<MigInstance>>({
    {.metric = {.name = "vram_gpu_mig_instance_info",
                .kind = Kind::kInfo,
                .help = "A compute instance (ci) of a GPU instance (gi), to be joined by uuid and "
                        "gi.",
                .labels = "ci mig_uuid profile",
                .points = instance_info}},
    {.key = "gpu_instance",
     .value = kRead<&MigInstance::gpu_instance>,
     .meaning = "the GPU instance that owns the memory"},
    {.key = "compute_instance",
     .value = kRead<&MigInstance::compute_instance>,
     .meaning = "the compute instance in it; several share its memory"},
    {.key = "uuid",
     .value = kRead<&MigInstance::uuid>,
     .meaning = "the driver's name of the instance",
     .detail = {.section = Section::kIdentity, .name = "UUID", .after = "profile"}},
    {.key = "profile",
     .value = kRead<&MigInstance::profile>,
     .meaning = "such as `\"1g.18gb\"`",
     .detail = {.section = Section::kIdentity, .name = "profile"}},
    {.in = &kInstanceMemory,
     .key = "total_bytes",
     .value = kInstanceMemoryOf<&DeviceMemory::total_bytes>,
     .is_of_device = true,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kInstanceMemory, .name = "total"},
     .metric = {.name = "vram_gpu_mig_memory_total_bytes",
                .help = "Memory of a GPU instance, which its compute instances share: NVML "
                        "nvmlDeviceGetMemoryInfo_v2 of the instance."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_TOTAL", .help = "Memory (in MiB)."}},
    {.in = &kInstanceMemory,
     .key = "used_bytes",
     .value = kInstanceMemoryOf<&DeviceMemory::used_bytes>,
     .limit = kInstanceMemoryOf<&DeviceMemory::total_bytes>,
     .is_of_device = true,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kInstanceMemory, .name = "used"},
     .metric = {.name = "vram_gpu_mig_memory_used_bytes", .help = "Of it, used by programs."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_USED", .help = "Memory used by programs (in MiB)."},
     .history = {.number = 1}},
    {.in = &kInstanceMemory,
     .key = "free_bytes",
     .value = kInstanceMemoryOf<&DeviceMemory::free_bytes>,
     .limit = kInstanceMemoryOf<&DeviceMemory::total_bytes>,
     .is_of_device = true,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kInstanceMemory, .name = "free"},
     .metric = {.name = "vram_gpu_mig_memory_free_bytes", .help = "Of it, free."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_FREE",
              .after = "DCGM_FI_DEV_FB_TOTAL",
              .help = "Free memory (in MiB)."},
     .history = {.number = 3}},
    {.in = &kInstanceMemory,
     .key = "reserved_bytes",
     .value = kInstanceMemoryOf<&DeviceMemory::reserved_bytes>,
     .limit = kInstanceMemoryOf<&DeviceMemory::total_bytes>,
     .is_of_device = true,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kInstanceMemory, .name = "reserved", .after = "total"},
     .metric = {.name = "vram_gpu_mig_memory_reserved_bytes",
                .after = "vram_gpu_mig_memory_used_bytes",
                .help = "Of it, reserved by the driver."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_RESERVED", .help = "Memory that the driver keeps (in MiB)."},
     .history = {.number = 2}},
    {.value = kRead<instance_used_ratio>,
     .dcgm = {.name = "DCGM_FI_DEV_FB_USED_PERCENT",
              .help = "Used of what is not reserved (0 to 1)."}},
});

constexpr auto kFaultFigures = std::to_array<Figure<XidCount>>({
    {.key = "xid", .value = kRead<&XidCount::xid>, .meaning = "NVIDIA's number of the fault"},
    {.key = "count", .value = kRead<&XidCount::count>, .meaning = "how many times it was reported"},
    {.key = "last_time_unix_ns",
     .value = kRead<&XidCount::last_time_ns>,
     .meaning = "when it was reported last"},
});

}  // namespace

std::vector<size_t> order_of(std::span<const Place> places) {
  std::vector<size_t> order;
  std::vector<size_t> waiting;
  for (size_t index = 0; index < places.size(); ++index)
    (places[index].after.empty() ? order : waiting).push_back(index);
  while (!waiting.empty()) {
    const auto next = std::ranges::find_if(waiting, [&](size_t index) {
      return place_after(places[index].after, order, places).has_value();
    });
    VRAM_CHECK(next != waiting.end());  // `after` names a cell of the view
    const size_t place = *place_after(places[*next].after, order, places);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), *next);
    waiting.erase(next);
  }
  return order;
}

template <>
std::span<const Figure<Device>> figures_of() {
  return kDeviceFigures;
}
template <>
std::span<const Figure<gpu::MigInstance>> figures_of() {
  return kInstanceFigures;
}
template <>
std::span<const Figure<XidCount>> figures_of() {
  return kFaultFigures;
}

template <>
std::span<const Figure<Process>> figures_of() {
  return kProcessFigures;
}
template <>
std::span<const Figure<Use>> figures_of() {
  return kUseFigures;
}

template <>
const ObjectType& type_of<Process>() {
  return kProcessType;
}
template <>
const ObjectType& type_of<Use>() {
  return kUseType;
}
template <>
const ObjectType& type_of<Device>() {
  return kDeviceType;
}
template <>
const ObjectType& type_of<gpu::MigInstance>() {
  return kMigInstanceType;
}
template <>
const ObjectType& type_of<XidCount>() {
  return kXidCountType;
}

}  // namespace vram::watch::figures
