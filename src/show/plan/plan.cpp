#include "show/plan/plan.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "plan/plan.hpp"
#include "show/draw/page.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace vram::show {
namespace {

Json json_cost(const plan::Cost& cost) {
  return {{"time_ns", cost.time_ns},
          {"peak_bytes", cost.peak_bytes},
          {"host_peak_bytes", cost.host_peak_bytes}};
}

Json json_attempt(const plan::Attempt& attempt) {
  Json json = {{"solver", attempt.solver}};
  json.update(
      attempt.schedule
          ? json_cost(attempt.schedule->cost)
          : Json{{"time_ns", nullptr}, {"peak_bytes", nullptr}, {"host_peak_bytes", nullptr}});
  json["why_not"] = attempt.schedule ? Json() : json_text(attempt.why_not);
  return json;
}

// Flat, each with the index of the region around it: regions nest as deep as the chain is long, and
// readers of JSON limit the depth.
void add_regions(Json& regions, const std::vector<plan::Region>& parts, const Json& parent) {
  for (const plan::Region& each : parts) {
    const size_t index = regions.size();
    regions.push_back({{"first", each.first},
                       {"last", each.last},
                       {"option", json_or_null(each.option)},
                       {"parent", parent}});
    add_regions(regions, each.parts, index);
  }
}

Json json_regions(const plan::Schedule& schedule, uint32_t stage_count) {
  const auto regions = plan::regions_of(schedule.operations, stage_count);
  if (!regions) return {};
  Json json = Json::array();
  add_regions(json, *regions, nullptr);
  return json;
}

// What each stage keeps when its backward comes.
std::vector<uint32_t> options_of(const plan::Schedule& schedule, uint32_t stage_count) {
  std::vector<uint32_t> options(stage_count);
  for (const plan::Operation& each : schedule.operations) {
    if (each.kind == plan::OpKind::kForwardSave) options[each.stage] = each.option;
  }
  return options;
}

Json json_stages(const plan::Chain& chain, const plan::Schedule& schedule) {
  const auto count = static_cast<uint32_t>(chain.stages.size());
  const std::vector<uint32_t> runs = plan::forward_runs(schedule.operations, count);
  const std::vector<uint32_t> options = options_of(schedule, count);
  Json json = Json::array();
  for (uint32_t i = 0; i < count; ++i) {
    json.push_back({{"name", json_text(chain.stages[i].name)},
                    {"option", options[i]},
                    {"option_name", json_text(chain.stages[i].options[options[i]].name)},
                    {"forward_runs", runs[i]}});
  }
  return json;
}

Json json_recorded(const PlanSubject& subject) {
  if (!subject.recorded) return {};
  const plan::RecordedStep& step = *subject.recorded;
  Json notes = Json::array();
  for (const std::string& note : step.notes) notes.push_back(json_text(note));
  return {{"device", step.device},
          {"pass_peak_bytes", step.pass_peak_bytes},
          {"rest_peak_bytes", step.rest_peak_bytes},
          {"notes", std::move(notes)}};
}

// What describes a plan without its schedule.
Json json_outcome(const plan::Plan& plan) {
  Json attempts = Json::array();
  for (const plan::Attempt& each : plan.attempts) attempts.push_back(json_attempt(each));
  Json json = {{"budget_bytes", plan.budget_bytes}, {"solver", plan.best.solver}};
  json.update(json_cost(plan.best.cost));
  json.update({{"ideal_ns", plan.ideal_ns},
               {"ideal_peak_bytes", plan.ideal_peak_bytes},
               {"lower_bound_ns", plan.lower_bound_ns},
               {"persistent_bound_ns", json_or_null(plan.persistent_bound_ns)},
               {"attempts", std::move(attempts)}});
  return json;
}

struct SolverName {
  std::string_view solver;
  std::string_view name;
  std::string_view column;  // of a sweep
};

constexpr std::array<SolverName, 5> kSolvers = {
    {{"rotor", tr_later("this plan's dynamic program (rotor)"), tr_later("this plan")},
     {"chen", tr_later("segments of equal bytes (Chen, √N)"), tr_later("Chen √N")},
     {"revolve", "Revolve", "Revolve"},
     {"checkpoint_every_stage", tr_later("every stage a checkpoint"), tr_later("every stage")},
     {"keep_all", tr_later("keep everything"), tr_later("keep all")}}};

std::string solver_name(const std::string& solver) {
  const auto found = std::ranges::find(kSolvers, solver, &SolverName::solver);
  return found == kSolvers.end() ? solver : std::string(tr(found->name));
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

// Stages [first, last] that are treated alike.
struct StageRange {
  uint32_t first = 0;
  uint32_t last = 0;
  std::string treatment;
};

std::string kept_text(const plan::Stage& stage, uint32_t option) {
  const plan::Option& kept = stage.options[option];
  if (kept.again_count != 0)
    return trf("recompute {} of {} operations", kept.again_count, kept.op_count);
  const std::string& name = kept.name;
  return name.empty() ? trf("keep (option {})", option) : printable(tr(name));
}

std::string segment_text(uint32_t stage_count) {
  return stage_count == 1
             ? tr("keep the input only, run again")
             : trf("keep the input of every {} stages, run these again", format_count(stage_count));
}

// Neighbours with the same treatment become one range.
std::vector<StageRange> ranges_of(const plan::Chain& chain, const plan::Schedule& schedule) {
  const auto count = static_cast<uint32_t>(chain.stages.size());
  std::vector<StageRange> ranges;
  const auto add = [&](uint32_t first, uint32_t last, std::string treatment) {
    if (!ranges.empty() && ranges.back().treatment == treatment) {
      ranges.back().last = last;
    } else {
      ranges.push_back({first, last, std::move(treatment)});
    }
  };
  const auto regions = plan::regions_of(schedule.operations, count);
  if (!regions) {
    const std::vector<uint32_t> runs = plan::forward_runs(schedule.operations, count);
    for (uint32_t i = 0; i < count; ++i)
      add(i, i, runs[i] == 1 ? std::string(tr("keep")) : trf("run forward {} times", runs[i]));
    return ranges;
  }
  for (const plan::Region& each : *regions) {
    add(each.first, each.last,
        each.option ? kept_text(chain.stages[each.first], *each.option)
                    : segment_text(each.last - each.first + 1));
  }
  return ranges;
}

std::string stage_name(const plan::Chain& chain, uint32_t index) {
  const std::string& name = chain.stages[index].name;
  return name.empty() ? trf("stage {}", index) : printable(name);
}

size_t count_recomputed(const plan::Chain& chain, const plan::Schedule& schedule) {
  const auto runs =
      plan::forward_runs(schedule.operations, static_cast<uint32_t>(chain.stages.size()));
  return static_cast<size_t>(std::ranges::count_if(runs, [](uint32_t n) { return n > 1; }));
}

void draw_subject(const PlanSubject& subject, const std::string& budget, Page& page) {
  page.add(Line(printable(subject.path), Style::kStrong));
  page.paragraph(Line(),
                 fmt::format("{}{}", counted(subject.chain.stages.size(), "stage"), budget));
}

void draw_recorded(const PlanSubject& subject, uint64_t ideal_peak_bytes, Page& page) {
  if (!subject.recorded) return;
  const plan::RecordedStep& step = *subject.recorded;
  page.heading(tr("TRACE"), tr("what the chain was made from, in requested bytes"));
  const std::string chain_peak = format_bytes(ideal_peak_bytes);
  page.paragraph(
      Line("  "),
      ideal_peak_bytes == step.pass_peak_bytes
          ? trf("Keeping everything needs {} by the chain, as in the trace.", chain_peak)
          : trf("Keeping everything needs {} by the chain, and {} in the trace: the chain "
                "counts {} too much.",
                chain_peak, format_bytes(step.pass_peak_bytes),
                format_bytes(ideal_peak_bytes - step.pass_peak_bytes)));
  page.paragraph(Line("  "), trf("Outside of forward and backward, the program needs {}, which "
                                 "no schedule changes.",
                                 format_bytes(step.rest_peak_bytes)));
  for (const std::string& note : step.notes) page.paragraph(Line("  "), note, Style::kFaint);
}

std::string bound_text(const plan::Plan& plan) {
  const uint64_t time_ns = plan.best.cost.time_ns;
  if (time_ns == plan.lower_bound_ns) return tr("No schedule within the budget is faster.");
  if (plan.persistent_bound_ns == time_ns)
    return tr("No schedule that keeps each checkpoint until its backward is faster.");
  return trf("No schedule within the budget takes less than {}.", time_text(plan.lower_bound_ns));
}

void draw_result(const plan::Plan& plan, Page& page) {
  page.blank();
  page.paragraph(Line(), trf("Needs {} ({} of the budget), and the step takes {}, {} compared with "
                             "keeping everything, which needs {}. {}",
                             format_bytes(plan.best.cost.peak_bytes),
                             format_share(plan.best.cost.peak_bytes, plan.budget_bytes),
                             time_text(plan.best.cost.time_ns),
                             added_text(plan.best.cost.time_ns, plan.ideal_ns),
                             format_bytes(plan.ideal_peak_bytes), bound_text(plan)));
}

void draw_stages(const plan::Chain& chain, const plan::Schedule& schedule, Page& page) {
  page.heading(tr("STAGES"), tr("what each keeps for its backward"));
  Table table({{}, {Align::kRight}, {Align::kLeft, Shrink::kEnd}});
  for (const StageRange& each : ranges_of(chain, schedule)) {
    const std::string first = stage_name(chain, each.first);
    const std::string name =
        each.first == each.last ? first : first + " – " + stage_name(chain, each.last);
    table.add_row(
        {Line(name), Line(format_count(each.last - each.first + 1)), Line(each.treatment)});
  }
  page.add(table.draw(1, page.columns()));
}

void draw_attempts(const plan::Plan& plan, Page& page) {
  page.heading(tr("COMPARED"), tr("with other ways to choose"));
  Table table(
      {{}, {Align::kRight}, {Align::kRight}, {Align::kRight}, {Align::kLeft, Shrink::kEnd}});
  for (const plan::Attempt& each : plan.attempts) {
    const Line name(solver_name(each.solver));
    if (!each.schedule) {
      table.add_row({name, Line(), Line(), Line(), Line(tr("does not fit"), Style::kFaint)});
      continue;
    }
    const plan::Cost& cost = each.schedule->cost;
    table.add_row({name, Line(format_bytes(cost.peak_bytes)), Line(time_text(cost.time_ns)),
                   Line(added_text(cost.time_ns, plan.ideal_ns)), Line()});
  }
  page.add(table.draw(1, page.columns()));
}

}  // namespace

std::string plan_json(const PlanSubject& subject, const plan::Plan& plan) {
  const auto count = static_cast<uint32_t>(subject.chain.stages.size());
  Json document = {{"schema", "vram.plan/1"}};
  document.update(json_outcome(plan));
  document.update({{"stages", json_stages(subject.chain, plan.best)},
                   {"regions", json_regions(plan.best, count)},
                   {"recorded", json_recorded(subject)}});
  return document.dump(2) + "\n";
}

std::string sweep_json(const PlanSubject& subject, std::span<const plan::Plan> plans) {
  const auto count = static_cast<uint32_t>(subject.chain.stages.size());
  Json rows = Json::array();
  for (const plan::Plan& plan : plans) {
    Json& row = rows.emplace_back(json_outcome(plan));
    row["forward_runs"] = plan::forward_runs(plan.best.operations, count);
  }
  Json stages = Json::array();
  for (const plan::Stage& stage : subject.chain.stages) stages.push_back(json_text(stage.name));
  const Json document = {{"schema", "vram.plan_sweep/1"},
                         {"stages", std::move(stages)},
                         {"plans", std::move(rows)},
                         {"recorded", json_recorded(subject)}};
  return document.dump(2) + "\n";
}

std::string draw_plan(const PlanSubject& subject, const plan::Plan& plan,
                      const TextOptions& options) {
  Page page(options);
  draw_subject(subject,
               trf(" · budget {}{}", format_bytes(plan.budget_bytes),
                   subject.card.empty() ? "" : " (" + subject.card + ")"),
               page);
  draw_result(plan, page);
  draw_stages(subject.chain, plan.best, page);
  draw_attempts(plan, page);
  draw_recorded(subject, plan.ideal_peak_bytes, page);
  return page.finish();
}

std::string draw_sweep(const PlanSubject& subject, std::span<const plan::Plan> plans,
                       const TextOptions& options) {
  Page page(options);
  draw_subject(subject, "", page);
  page.heading(tr("BUDGETS"), tr("the time that each adds to the step, by the way to choose"));
  Table table(std::vector<Column>(3 + kSolvers.size(), Column{Align::kRight}));
  std::vector<Line> head = {Line(tr("budget"), Style::kFaint), Line(tr("peak"), Style::kFaint),
                            Line(tr("run again"), Style::kFaint)};
  for (const SolverName& each : kSolvers)
    head.emplace_back(std::string(each.column), Style::kFaint);
  table.add_row(std::move(head));
  for (const plan::Plan& plan : plans) {
    std::vector<Line> row = {Line(format_bytes(plan.budget_bytes)),
                             Line(format_bytes(plan.best.cost.peak_bytes)),
                             Line(counted(count_recomputed(subject.chain, plan.best), "stage"))};
    for (const plan::Attempt& each : plan.attempts)
      row.emplace_back(each.schedule ? added_text(each.schedule->cost.time_ns, plan.ideal_ns)
                                     : "–");
    table.add_row(std::move(row));
  }
  page.add(table.draw(1, page.columns()));
  draw_recorded(subject, plans.front().ideal_peak_bytes, page);
  return page.finish();
}

}  // namespace vram::show
