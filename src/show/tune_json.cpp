#include "show/tune_json.hpp"

#include "replay/tune/pytorch_conf.hpp"
#include "show/json_replayed.hpp"
#include "show/json_state.hpp"

#include <string_view>
#include <utility>

namespace vram::show {
namespace {

using replay::TuneCandidate;
using replay::TuneVerdict;

std::string_view verdict_word(TuneVerdict verdict) {
  switch (verdict) {
    case TuneVerdict::kBetter:
      return "better";
    case TuneVerdict::kRecordedIsBest:
      return "recorded_is_best";
    case TuneVerdict::kNoneCompletes:
      return "none_completes";
    case TuneVerdict::kPeakIsBefore:
      return "peak_is_before";
    case TuneVerdict::kCannotFit:
      return "cannot_fit";
  }
  return "unknown";
}

Json json_conf(const replay::AllocatorSpec& spec) {
  const auto conf = replay::pytorch_conf(spec);
  return conf ? json_text(*conf) : Json();
}

Json json_oom(const TuneCandidate& candidate, bool has_time) {
  if (!candidate.result.oom) return Json();
  const replay::ReplayOom& oom = *candidate.result.oom;
  Json json = {{"time_ns", has_time ? Json(oom.time_ns) : Json()}, {"event", oom.event}};
  json.update(json_oom_sizes(oom));
  return json;
}

Json json_candidate(const TuneCandidate& candidate, size_t rank, const ReplaySubject& subject) {
  Json notes = Json::array();
  for (const std::string& note : replay::setting_notes(candidate.spec)) notes.push_back(note);
  Json json = {{"rank", rank},
               {"tier", candidate.tier},
               {"conf", json_conf(candidate.spec)},
               {"setting_count", candidate.spec.settings.size()},
               {"notes", std::move(notes)}};
  json.update(json_replayed(candidate.result, candidate.is_recorded, subject.fidelity));
  json["oom"] = json_oom(candidate, subject.has_time);
  return json;
}

Json json_candidates(const std::vector<TuneCandidate>& candidates, const ReplaySubject& subject) {
  Json json = Json::array();
  for (const TuneCandidate& each : candidates)
    json.push_back(json_candidate(each, json.size() + 1, subject));
  return json;
}

}  // namespace

std::string tune_json(const TuneReport& report) {
  const replay::TuneResult& result = report.result;
  Json settings = json_candidates(result.ranked, report);
  const bool has_answer =
      result.ranked.front().result.completed && result.verdict != TuneVerdict::kPeakIsBefore;
  Json document = {{"schema", "vram.tune/1"}};
  document.update(json_subject(report));
  document.update({{"verdict", verdict_word(result.verdict)},
                   {"conf", has_answer ? json_conf(result.ranked.front().spec) : Json()},
                   {"replays", result.replays},
                   {"peak_live_bytes", result.peak_live_bytes},
                   {"holders", report.at_peak ? json_main_holders(*report.at_peak,
                                                                  report.has_stacks, kTuneHolders)
                                              : Json::array()}});
  document["recorded"] = settings[result.recorded];
  document["settings"] = std::move(settings);
  document["others"] = json_candidates(result.others, report);
  return document.dump(2) + "\n";
}

}  // namespace vram::show
