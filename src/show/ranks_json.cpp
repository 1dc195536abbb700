#include "show/ranks_json.hpp"

#include "base/json.hpp"
#include "show/names.hpp"

namespace vram::show {
namespace {

using explain::RankLine;
using explain::RankReport;

Json json_rank(const RankLine& line) {
  return {{"rank", line.rank},
          {"host", line.host.empty() ? Json() : json_text(line.host)},
          {"path", json_text(line.path)},
          {"device", line.device},
          {"peak_requested_bytes", line.peak_requested_bytes},
          {"peak_reserved_bytes", line.peak_reserved_bytes},
          {"headroom_bytes", json_or_null(line.headroom_bytes)},
          {"step_count", line.steps},
          {"oom_count", line.ooms}};
}

Json json_difference(const std::optional<explain::Difference>& found) {
  if (!found) return Json();
  return {{"name", json_text(found->name)},
          {"worst_bytes", found->worst_bytes},
          {"median_bytes", found->median_bytes}};
}

Json json_worst(const RankReport& report) {
  if (report.worst_by == explain::RankMeasure::kNone) return Json();
  return {{"rank", report.ranks[report.worst].rank},
          {"by", identifier(report.worst_by)},
          {"median_rank", report.ranks[report.median].rank},
          {"category", json_difference(report.category)},
          {"site", json_difference(report.site)},
          {"step", json_difference(report.step)}};
}

Json json_step(const explain::AlignedStep& step, const RankReport& report) {
  Json peaks = Json::array();
  for (const auto& bytes : step.peak_bytes) peaks.push_back(json_or_null(bytes));
  return {{"name", json_text(step.name)},
          {"worst_rank", report.ranks[step.worst].rank},
          {"peak_bytes", std::move(peaks)}};
}

}  // namespace

std::string ranks_json(const RankReport& report) {
  Json ranks = Json::array();
  for (const RankLine& line : report.ranks) ranks.push_back(json_rank(line));
  Json steps = Json::array();
  for (const explain::AlignedStep& step : report.steps) steps.push_back(json_step(step, report));
  const Json document = {{"schema", "vram.ranks/1"},
                         {"world_size", json_or_null(report.world_size)},
                         {"ranks", std::move(ranks)},
                         {"worst", json_worst(report)},
                         {"steps", std::move(steps)}};
  return document.dump(2) + "\n";
}

}  // namespace vram::show
