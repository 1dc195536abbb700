#include "alerts/rules/rule.hpp"

#include "base/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace vram::alerts {
namespace {

constexpr std::array kMeasures = {
    MeasureFacts{.measure = Measure::kMemoryUsed,
                 .name = "memory_used",
                 .unit = Unit::kShare,
                 .scope = Scope::kDevice,
                 .meaning = "used, of what the driver does not keep for itself",
                 .has_headroom = true},
    MeasureFacts{.measure = Measure::kTimeToFull,
                 .name = "time_to_full",
                 .unit = Unit::kSeconds,
                 .scope = Scope::kDevice,
                 .meaning = "until the device is full, if it continues to grow as in the window",
                 .holds_below = true,
                 .has_window = true,
                 .has_at_least = true},
    MeasureFacts{.measure = Measure::kProcessTimeToFull,
                 .name = "process_time_to_full",
                 .unit = Unit::kSeconds,
                 .scope = Scope::kProcess,
                 .meaning = "until a process has filled its device, if it continues to grow",
                 .holds_below = true,
                 .has_window = true,
                 .has_at_least = true},
    MeasureFacts{.measure = Measure::kUnattributed,
                 .name = "unattributed",
                 .unit = Unit::kBytes,
                 .scope = Scope::kDevice,
                 .meaning = "used by no process that the driver names"},
    MeasureFacts{.measure = Measure::kIdleMemory,
                 .name = "idle_memory",
                 .unit = Unit::kBytes,
                 .scope = Scope::kProcess,
                 .meaning = "held by a process for which the device does not compute"},
    MeasureFacts{.measure = Measure::kUnusedReserve,
                 .name = "unused_reserve",
                 .unit = Unit::kShare,
                 .scope = Scope::kProcess,
                 .meaning = "of what a process's allocator took, the part in no tensor",
                 .has_at_least = true},
    MeasureFacts{.measure = Measure::kDeadProcessMemory,
                 .name = "dead_process_memory",
                 .unit = Unit::kBytes,
                 .scope = Scope::kProcess,
                 .meaning = "held by a process that is gone"},
    MeasureFacts{.measure = Measure::kAllocRetries,
                 .name = "alloc_retries",
                 .unit = Unit::kCount,
                 .scope = Scope::kProcess,
                 .meaning = "requests in the window that a process's allocator had to repeat",
                 .has_window = true},
    MeasureFacts{.measure = Measure::kOoms,
                 .name = "ooms",
                 .unit = Unit::kCount,
                 .scope = Scope::kProcess,
                 .meaning = "out-of-memory errors of a process's allocator in the window",
                 .has_window = true},
    MeasureFacts{.measure = Measure::kXid,
                 .name = "xid",
                 .unit = Unit::kCount,
                 .scope = Scope::kDevice,
                 .meaning = "faults with one of these numbers in the window",
                 .has_window = true,
                 .has_xids = true},
    MeasureFacts{.measure = Measure::kOtherXid,
                 .name = "other_xid",
                 .unit = Unit::kCount,
                 .scope = Scope::kDevice,
                 .meaning = "faults with a number that no other rule names",
                 .has_window = true},
    MeasureFacts{.measure = Measure::kHeldClocks,
                 .name = "held_clocks",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "the clocks are held down for one of these reasons",
                 .has_reasons = true},
    MeasureFacts{.measure = Measure::kTemperature,
                 .name = "temperature",
                 .unit = Unit::kCelsius,
                 .scope = Scope::kDevice,
                 .meaning = "of the chip"},
    MeasureFacts{.measure = Measure::kMemoryTemperature,
                 .name = "memory_temperature",
                 .unit = Unit::kCelsius,
                 .scope = Scope::kDevice,
                 .meaning = "of the memory"},
    MeasureFacts{.measure = Measure::kEccUncorrected,
                 .name = "ecc_uncorrected",
                 .unit = Unit::kCount,
                 .scope = Scope::kDevice,
                 .meaning = "new uncorrected memory errors in the window",
                 .has_window = true},
    MeasureFacts{.measure = Measure::kRowRemapFailed,
                 .name = "row_remap_failed",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "a bad row of the memory could not be replaced"},
    MeasureFacts{.measure = Measure::kRowRemapPending,
                 .name = "row_remap_pending",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "a bad row of the memory is replaced at the next reset"},
    MeasureFacts{.measure = Measure::kPageRetirementFailed,
                 .name = "page_retirement_failed",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "a bad page of the memory could not be taken out of use"},
    MeasureFacts{.measure = Measure::kPageRetirementPending,
                 .name = "page_retirement_pending",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "a bad page of the memory is in use until the next reset"},
    MeasureFacts{.measure = Measure::kRecoveryAction,
                 .name = "recovery_action",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "the driver asks for a reset or the like"},
    MeasureFacts{.measure = Measure::kTrouble,
                 .name = "error",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "the driver answers with an error, or not at all"},
    MeasureFacts{.measure = Measure::kMissing,
                 .name = "missing",
                 .unit = Unit::kFlag,
                 .scope = Scope::kDevice,
                 .meaning = "a device that was there in the window is no longer listed",
                 .has_window = true},
    MeasureFacts{.measure = Measure::kSourceFailing,
                 .name = "source_failing",
                 .unit = Unit::kFlag,
                 .scope = Scope::kMachine,
                 .meaning = "a source that has worked, or the last hope of one, does not work"},
    MeasureFacts{.measure = Measure::kSampleTime,
                 .name = "sample_time",
                 .unit = Unit::kSeconds,
                 .scope = Scope::kMachine,
                 .meaning = "duration of a sample of all devices"},
    MeasureFacts{.measure = Measure::kSampleOverdue,
                 .name = "sample_overdue",
                 .unit = Unit::kSeconds,
                 .scope = Scope::kMachine,
                 .meaning = "how long a sample has been waiting for a driver beyond its period"},
};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kMeasures.size(); ++i) {
    if (static_cast<size_t>(kMeasures.at(i).measure) != i) return false;
  }
  return kMeasures.size() == static_cast<size_t>(Measure::kSampleOverdue) + 1;
}
static_assert(is_in_order(), "facts_of() looks a measure up by its number");

uint64_t whole(double value) {
  constexpr double kMax = 9e18;
  return static_cast<uint64_t>(std::llround(std::clamp(value, 0.0, kMax)));
}

// Coarse, as forecasts are: hours and minutes beyond two hours.
std::string seconds_text(double value) {
  const uint64_t seconds = whole(value);
  if (seconds < 120) return format_duration_ns(static_cast<int64_t>(whole(value * 1e9)));
  const uint64_t minutes = seconds / 60;
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace

std::span<const MeasureFacts> all_measures() { return kMeasures; }

const MeasureFacts& facts_of(Measure measure) { return kMeasures.at(static_cast<size_t>(measure)); }

std::string_view identifier(Measure measure) { return facts_of(measure).name; }

std::string_view identifier(Severity severity) {
  static constexpr std::array<std::string_view, 3> kNames = {"info", "warning", "critical"};
  return kNames.at(static_cast<size_t>(severity));
}

std::string_view identifier(Unit unit) {
  static constexpr std::array<std::string_view, 6> kNames = {"ratio",   "bytes", "seconds",
                                                             "celsius", "count", "flag"};
  return kNames.at(static_cast<size_t>(unit));
}

std::string value_text(Unit unit, double value) {
  if (!std::isfinite(value)) return "never";
  switch (unit) {
    case Unit::kShare:
      return fmt::format("{:.1f} %", 100 * value);
    case Unit::kBytes:
      return format_bytes(whole(value));
    case Unit::kSeconds:
      return seconds_text(value);
    case Unit::kCelsius:
      return fmt::format("{:.0f} C", value);
    case Unit::kCount:
      return fmt::format("{:.0f}", value);
    case Unit::kFlag:
      return value != 0 ? "yes" : "no";
  }
  return "";
}

}  // namespace vram::alerts
