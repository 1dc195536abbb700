#include "show/doctor_json.hpp"

#include "base/json.hpp"
#include "show/doctor_text.hpp"

#include <array>
#include <utility>
#include <vector>

namespace vram::show {
namespace {

Json json_doctor_finding(const doctor::Finding& finding) {
  return {
      {"id", finding.id},
      {"subject", doctor::subject_of(finding.id)},
      {"severity", name_of(finding.severity)},
      {"what", json_text(finding.what)},
      {"why", json_text(finding.why)},
      {"repair",
       {{"how", json_text(finding.repair.how)}, {"commands", json_texts(finding.repair.commands)}}},
      {"evidence", json_texts(finding.evidence)}};
}

}  // namespace

std::string doctor_json(const doctor::Report& report) {
  std::array<uint64_t, 4> counts{};  // by severity
  Json findings = Json::array();
  for (const doctor::Finding& finding : report.findings) {
    ++counts.at(static_cast<size_t>(finding.severity));
    findings.push_back(json_doctor_finding(finding));
  }
  Json document = {{"schema", "vram.doctor/1"},
                   {"time_unix_ns", report.time_ns == 0 ? Json() : Json(report.time_ns)},
                   {"host", report.host.empty() ? Json() : json_text(report.host)},
                   {"usable_gpus", report.usable_gpus},
                   {"bad", counts[0]},
                   {"warnings", counts[1]},
                   {"notes", counts[2]}};
  document["findings"] = std::move(findings);
  return document.dump(2, ' ', true) + "\n";
}

}  // namespace vram::show
