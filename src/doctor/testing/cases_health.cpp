#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
namespace {

constexpr auto kHealthCases = std::to_array<Case>(
    {{"health.trouble", [](Facts& f) { first_device(f).sample.trouble = "GPU is lost (15)"; },
      nothing},
     {"health.recovery", [](Facts& f) { first_device(f).health.recovery_action = "reset"; },
      nothing},
     {"health.ecc", [](Facts& f) { first_device(f).health.ecc_since_boot.uncorrected = 1; },
      [](Facts& f) { first_device(f).health.ecc_since_boot.corrected = 9; }},
     {"health.row_remap_failed",
      [](Facts& f) { first_device(f).health.remapped_rows->has_failed = true; },
      [](Facts& f) { first_device(f).health.remapped_rows->uncorrected = 1; }},
     {"health.row_remap_pending",
      [](Facts& f) { first_device(f).health.remapped_rows->is_pending = true; }, nothing},
     {"health.page_retirement_failed",
      [](Facts& f) { first_device(f).health.retired_pages.emplace().has_failed = true; },
      [](Facts& f) { first_device(f).health.retired_pages.emplace().of_any_cause = 3; }},
     {"health.page_retirement_pending",
      [](Facts& f) { first_device(f).health.retired_pages.emplace().is_pending = true; },
      [](Facts& f) { first_device(f).health.retired_pages.emplace().is_pending = false; }},
     {"health.throttling",
      [](Facts& f) { first_device(f).sample.throttle_reasons = {"hardware thermal"}; },
      [](Facts& f) { first_device(f).sample.throttle_reasons = {"power cap", "sync boost"}; }},
     {"health.small_bar", [](Facts& f) { first_device(f).health.bar1->total_bytes = 256 * kMiB; },
      nothing},
     {"health.xid", [](Facts& f) { log_xid(f, 79); }, nothing},
     {"health.xid_unknown", [](Facts& f) { f.xids.reset(); }, nothing},
     {"health.zombie", [](Facts& f) { add_holder(f, true, false); },
      [](Facts& f) {
        add_holder(f, true, false);
        f.container.is_host_pid_namespace = false;
      }},
     {"health.idle_holder", [](Facts& f) { add_holder(f, false, true); },
      [](Facts& f) { add_holder(f, false, false); }},
     {"health.good", nothing, [](Facts& f) { first_device(f).sample.is_asleep = true; }}});

}  // namespace

std::span<const Case> health_cases() { return kHealthCases; }

}  // namespace vram::doctor::testing
