#include "show/plan/plan_text.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "show/draw/table.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace vram::show {
namespace {

std::string solver_name(const std::string& solver) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {
      {{"rotor", "this plan's dynamic program (rotor)"},
       {"chen", "segments of equal bytes (Chen, √N)"},
       {"revolve", "Revolve"},
       {"checkpoint_every_stage", "every stage a checkpoint"},
       {"keep_all", "keep everything"}}};
  for (const auto& [name, text] : kNames)
    if (name == solver) return std::string(text);
  return solver;
}

std::string time_text(uint64_t time_ns) {
  return format_duration_ns(static_cast<int64_t>(time_ns));
}

// "+8.4 %"
std::string added_text(uint64_t time_ns, uint64_t ideal_ns) {
  if (ideal_ns == 0) return "";
  return fmt::format("{:+.1f} %",
                     100 * (static_cast<double>(time_ns) / static_cast<double>(ideal_ns) - 1));
}

void draw_budget(const PlanReport& report, Page& page) {
  const plan::Plan& plan = report.plan;
  page.add(Line(printable(report.path), Style::kStrong));
  page.paragraph(Line(),
                 fmt::format("{} · budget {}{}", counted(report.chain.stages.size(), "stage"),
                             format_bytes(plan.budget_bytes),
                             report.card.empty() ? "" : " (" + report.card + ")"));
  page.blank();
  page.paragraph(Line(),
                 fmt::format("Needs {} ({} of the budget), and the step takes {}, {} compared with "
                             "keeping everything, which needs {}.",
                             format_bytes(plan.best.cost.peak_bytes),
                             format_share(plan.best.cost.peak_bytes, plan.budget_bytes),
                             time_text(plan.best.cost.time_ns),
                             added_text(plan.best.cost.time_ns, plan.ideal_ns),
                             format_bytes(plan.ideal_peak_bytes)));
}

void draw_attempts(const PlanReport& report, Page& page) {
  page.heading("COMPARED", "with other ways to choose");
  Table table(
      {{}, {Align::kRight}, {Align::kRight}, {Align::kRight}, {Align::kLeft, Shrink::kEnd}});
  for (const plan::Attempt& each : report.plan.attempts) {
    const Line name(solver_name(each.solver));
    if (!each.schedule) {
      table.add_row({name, Line(), Line(), Line(), Line("does not fit", Style::kFaint)});
      continue;
    }
    const plan::Cost& cost = each.schedule->cost;
    table.add_row({name, Line(format_bytes(cost.peak_bytes)), Line(time_text(cost.time_ns)),
                   Line(added_text(cost.time_ns, report.plan.ideal_ns)), Line()});
  }
  page.add(table.draw(1, page.columns()));
}

}  // namespace

std::string draw_plan(const PlanReport& report, const TextOptions& options) {
  Page page(options);
  draw_budget(report, page);
  draw_attempts(report, page);
  return page.finish();
}

}  // namespace vram::show
