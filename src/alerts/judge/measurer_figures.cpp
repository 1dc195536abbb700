// The values of devices and processes that are arithmetic on figures.
#include "alerts/judge/measurer.hpp"
#include "base/bytes.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace vram::alerts {
namespace {

using Bytes = std::optional<uint64_t>;
using Value = std::optional<double>;

// Less memory of its own than this, and the host's besides, has a processor's own graphics.
constexpr uint64_t kMaxCarvedOutBytes = 4 * kGiB;
constexpr double kNever = std::numeric_limits<double>::infinity();

Value value_of(const auto& figure) {
  return figure ? Value(static_cast<double>(*figure)) : std::nullopt;
}

Value flag(const std::optional<bool>& yes) { return yes ? Value(*yes ? 1 : 0) : std::nullopt; }

Bytes sum(Bytes a, Bytes b) {
  uint64_t result = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &result)) return std::nullopt;
  return result;
}

gpu::DeviceMemory memory_of(const watch::Device& device) {
  const gpu::DeviceMemory& own = device.sample.memory;
  const gpu::DeviceMemory& host = device.sample.host_memory;
  if (!own.total_bytes || *own.total_bytes > kMaxCarvedOutBytes || !host.total_bytes) return own;
  return {sum(own.total_bytes, host.total_bytes), sum(own.used_bytes, host.used_bytes),
          sum(own.free_bytes, host.free_bytes), own.reserved_bytes};
}

// What programs may have in all.
Bytes usable_of(const gpu::DeviceMemory& memory) {
  const uint64_t reserved = memory.reserved_bytes.value_or(0);
  if (!memory.total_bytes || *memory.total_bytes <= reserved) return std::nullopt;
  return *memory.total_bytes - reserved;
}

Bytes free_of(const gpu::DeviceMemory& memory) {
  if (memory.free_bytes) return memory.free_bytes;
  const Bytes usable = usable_of(memory);
  if (!usable || !memory.used_bytes || *memory.used_bytes > *usable) return std::nullopt;
  return *usable - *memory.used_bytes;
}

Value share_of(const gpu::DeviceMemory& memory) {
  const Bytes usable = usable_of(memory);
  if (!usable || !memory.used_bytes) return std::nullopt;
  return static_cast<double>(*memory.used_bytes) / static_cast<double>(*usable);
}

std::optional<bool> is_held(const watch::Device& device, const std::vector<std::string>& reasons) {
  if (!device.sample.throttle_reasons) return std::nullopt;
  return std::ranges::any_of(*device.sample.throttle_reasons, [&](const std::string& reason) {
    return std::ranges::count(reasons, reason) > 0;
  });
}

Value recovery_of(const watch::Device& device) {
  const auto& action = device.health.recovery_action;
  return flag(action ? std::optional(!action->empty() && *action != "none") : std::nullopt);
}

// The device's word counts for a process of which it says nothing.
Value idle_bytes(const Measured& measured) {
  const gpu::DeviceProcess& process = measured.use->process;
  const auto busy =
      process.busy_percent ? process.busy_percent : measured.device->sample.busy_percent;
  if (!busy) return std::nullopt;
  return *busy > 0 ? Value(0) : value_of(process.used_bytes);
}

void set_unused_reserve(const Rule& rule, Measured& measured) {
  const auto& allocator = measured.use->allocator;
  if (!allocator || !allocator->reserved_bytes || !allocator->allocated_bytes) return;
  const uint64_t reserved = *allocator->reserved_bytes;
  const uint64_t unused = reserved - std::min(reserved, *allocator->allocated_bytes);
  measured.counts = unused >= rule.at_least_bytes;
  measured.value = reserved == 0 ? 0 : static_cast<double>(unused) / static_cast<double>(reserved);
}

// What a process holds for good: in tensors, where it says so. And what it may still take.
struct Growing {
  Bytes bytes;
  Bytes room;
};

Growing growing_of(const Measured& measured) {
  const gpu::DeviceMemory memory = memory_of(*measured.device);
  if (measured.use == nullptr) return {memory.used_bytes, free_of(memory)};
  const auto& allocator = measured.use->allocator;
  if (!allocator || !allocator->allocated_bytes || !allocator->reserved_bytes)
    return {measured.use->process.used_bytes, free_of(memory)};
  const uint64_t allocated = *allocator->allocated_bytes;
  const uint64_t cached =
      *allocator->reserved_bytes - std::min(*allocator->reserved_bytes, allocated);
  return {allocated, sum(free_of(memory), cached)};
}

}  // namespace

// The instances of MIG one by one, too: one that is full does not fill the whole.
void Measurer::measure_memory(const Rule& rule, std::vector<Measured>& found) const {
  const auto fill = [&](Measured& measured, const gpu::DeviceMemory& memory) {
    measured.value = share_of(memory);
    const Bytes free = free_of(memory);
    measured.counts = rule.headroom_bytes == 0 || !free || *free <= rule.headroom_bytes;
    measured.free_bytes = free;
  };
  for (size_t place = 0; place < numbers_.size(); ++place) {
    const watch::Device& device = view_->sampled.snapshot.devices[place];
    fill(found.emplace_back(of_device(place)), memory_of(device));
    std::set<uint32_t> counted;
    for (const gpu::MigInstance& instance : device.health.mig_instances) {
      if (!counted.insert(instance.gpu_instance).second) continue;
      Measured& part = found.emplace_back(of_device(place));
      part.subject.gpu_instance = instance.gpu_instance;
      fill(part, instance.memory);
    }
  }
}

std::optional<bool> Measurer::is_dead(const watch::Process& process) const {
  if (process.facts->start_ticks) return false;
  if (sees_all_processes_ || std::ranges::binary_search(seen_alive_, process.facts->pid))
    return true;
  return std::nullopt;
}

void Measurer::measure_use(const Rule& rule, std::vector<Measured>& found) const {
  found = uses_;
  for (Measured& measured : found) {
    if (rule.measure == Measure::kUnusedReserve) {
      set_unused_reserve(rule, measured);
    } else if (rule.measure == Measure::kIdleMemory) {
      measured.value = idle_bytes(measured);
    } else if (const auto dead = is_dead(*measured.process)) {
      measured.value = *dead ? value_of(measured.use->process.used_bytes) : Value(0);
    }
  }
}

size_t Measurer::SubjectHash::operator()(const Subject& subject) const {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads numbers that lie close together
  uint64_t hash = 0;
  for (const uint64_t part : {uint64_t{subject.pid}, uint64_t{subject.device}, subject.start_ticks,
                              uint64_t{subject.gpu_instance}, uint64_t{subject.compute_instance}})
    hash = (hash ^ (hash >> 32) ^ part) * kOdd;
  return hash ^ (hash >> 32);
}

bool Measurer::follow(Trends& trends, const Rule& rule, Measured& measured, Bytes bytes,
                      Bytes room) {
  if (!bytes) return false;
  auto entry = trends.find(measured.subject);  // to make a trend for nothing costs more
  if (entry == trends.end()) {
    const KnownTrend fresh{Trend(rule.window_ns, rule.at_least_bytes), 0};
    entry = trends.emplace(measured.subject, fresh).first;
  }
  KnownTrend& known = entry->second;
  const bool is_first = std::exchange(known.used_ns, view_->now_ns) != view_->now_ns;
  known.trend.add(view_->now_ns, *bytes);
  const auto growth = known.trend.growth_per_second();
  if (!growth || !room) return is_first;
  measured.per_second = *growth;
  const auto bytes_left = static_cast<double>(*room);
  const bool fills_it = *growth > 0 && bytes_left <= known.trend.limit_bytes();
  measured.value = fills_it ? bytes_left / *growth : kNever;
  return is_first;
}

void Measurer::measure_trends(const Rule& rule, std::vector<Measured>& found) {
  if (rule.measure == Measure::kProcessTimeToFull) {
    found = uses_;
  } else {
    for (size_t place = 0; place < numbers_.size(); ++place) found.push_back(of_device(place));
  }
  Trends& trends = trends_[key_of_trends(rule)];
  size_t followed = 0;
  for (Measured& measured : found) {
    const Growing growing = growing_of(measured);
    if (follow(trends, rule, measured, growing.bytes, growing.room)) ++followed;
  }
  if (followed == trends.size()) return;
  std::erase_if(trends, [&](const auto& entry) {
    return view_->now_ns - entry.second.used_ns > rule.window_ns;
  });
}

void Measurer::measure_device(const Rule& rule, std::vector<Measured>& found) const {
  for (size_t place = 0; place < numbers_.size(); ++place) {
    Measured& measured = found.emplace_back(of_device(place));
    const watch::Device& device = *measured.device;
    const auto& rows = device.health.remapped_rows;
    const auto& pages = device.health.retired_pages;
    if (rule.measure == Measure::kUnattributed) {
      measured.value = value_of(device.unattributed_bytes);
    } else if (rule.measure == Measure::kHeldClocks) {
      measured.value = flag(is_held(device, rule.reasons));
    } else if (rule.measure == Measure::kTemperature) {
      measured.value = value_of(device.sample.celsius);
    } else if (rule.measure == Measure::kMemoryTemperature) {
      measured.value = value_of(device.health.memory_celsius);
    } else if (rule.measure == Measure::kEccUncorrected) {
      const auto errors = ecc_.find(numbers_[place]);
      if (errors != ecc_.end())
        measured.value =
            static_cast<double>(errors->second.in_window(view_->now_ns, rule.window_ns));
    } else if (rule.measure == Measure::kRowRemapFailed) {
      measured.value = flag(rows ? std::optional(rows->has_failed) : std::nullopt);
    } else if (rule.measure == Measure::kRowRemapPending) {
      measured.value = flag(rows ? std::optional(rows->is_pending) : std::nullopt);
    } else if (rule.measure == Measure::kPageRetirementFailed) {
      measured.value = flag(pages ? pages->has_failed : std::nullopt);
    } else if (rule.measure == Measure::kPageRetirementPending) {
      measured.value = flag(pages ? pages->is_pending : std::nullopt);
    } else if (rule.measure == Measure::kRecoveryAction) {
      measured.value = recovery_of(device);
    } else if (rule.measure == Measure::kTrouble) {
      measured.value = device.sample.trouble ? 1 : 0;
    }
  }
}

}  // namespace vram::alerts
