#include "show/report/report_text.hpp"

#include "base/result.hpp"
#include "show/draw/page.hpp"

#include <algorithm>
#include <array>

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

namespace {

using Reduction = void (*)(Detail&);

// An asked number of holders may be less already.
void at_most(size_t limit, size_t& number) { number = std::min(number, limit); }

constexpr auto kReductions = std::to_array<Reduction>(
    {[](Detail& d) { d.has_notes = d.has_phases = false; }, [](Detail& d) { d.plot_rows = 5; },
     [](Detail& d) { d.has_shares = false; }, [](Detail& d) { d.evidence = 1; },
     [](Detail& d) { at_most(5, d.holders), at_most(5, d.categories); },
     [](Detail& d) { d.what_ifs = 2; }, [](Detail& d) { d.has_waste_notes = false, d.growths = 2; },
     [](Detail& d) { d.findings = 4, d.advice = 3; }, [](Detail& d) { d.has_step_table = false; },
     [](Detail& d) { d.findings = 3, d.ooms = 1, d.devices = 4; },
     [](Detail& d) { at_most(3, d.holders), at_most(3, d.categories); },
     [](Detail& d) { d.advice = 2; }, [](Detail& d) { d.plot_rows = 3; },
     [](Detail& d) { d.evidence = 0, d.growths = 1; }, [](Detail& d) { d.advice = 1; },
     [](Detail& d) { d.plot_rows = 0; },
     [](Detail& d) { d.what_ifs = 0, d.categories = 0, d.findings = 2; },
     [](Detail& d) { d.has_steps = false, d.devices = 1, d.findings = 1; }});

}  // namespace

std::span<void (*const)(Detail&)> reductions() { return kReductions; }

}  // namespace vram::show
