#include "show/report_text.hpp"

#include "base/check.hpp"
#include "show/page.hpp"
#include "show/sections/sections.hpp"

namespace vram::show {

std::string draw_report(const explain::Report& report, const TextOptions& options) {
  VRAM_CHECK(report.main_device < report.devices.size());
  Page page(options);
  const Subject subject{report, report.devices[report.main_device]};
  for (const auto draw : {draw_origin, draw_devices, draw_peak, draw_timeline, draw_categories,
                          draw_holders, draw_waste, draw_steps, draw_phases, draw_ooms,
                          draw_what_if, draw_at, draw_findings, draw_notes}) {
    draw(subject, page);
  }
  return page.finish();
}

}  // namespace vram::show
