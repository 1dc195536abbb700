#include "show/report_text.hpp"

#include "base/check.hpp"
#include "show/page.hpp"
#include "show/sections/sections.hpp"

namespace vram::show {

namespace {

Detail full_detail(const TextOptions& options) {
  Detail detail;
  if (!options.top) return detail;
  detail.holders = detail.categories = *options.top == 0 ? Detail::kAll : *options.top;
  return detail;
}

Page drawn(const explain::Report& report, const TextOptions& options, const Detail& detail) {
  Page page(options);
  const Subject subject{report, report.devices[report.main_device], detail};
  for (const auto draw : {draw_origin, draw_devices, draw_peak, draw_timeline, draw_categories,
                          draw_holders, draw_waste, draw_steps, draw_phases, draw_ooms,
                          draw_what_if, draw_at, draw_findings, draw_notes}) {
    draw(subject, page);
  }
  draw_left_out(page);
  return page;
}

}  // namespace

std::string draw_report(const explain::Report& report, const TextOptions& options) {
  VRAM_CHECK(report.main_device < report.devices.size());
  Detail detail = full_detail(options);
  Page page = drawn(report, options, detail);
  for (const auto reduce : reductions()) {
    if (options.max_lines == 0 || page.line_count() <= options.max_lines) break;
    reduce(detail);
    if (options.top) detail.holders = full_detail(options).holders;
    page = drawn(report, options, detail);
  }
  return page.finish();
}

}  // namespace vram::show
