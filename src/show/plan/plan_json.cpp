#include "base/json.hpp"
#include "plan/regions.hpp"
#include "show/plan/plan.hpp"

#include <utility>

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

}  // namespace vram::show
