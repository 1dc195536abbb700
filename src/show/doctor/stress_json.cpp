#include "show/doctor/stress_json.hpp"

#include "base/json.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace vram::show {
namespace {

using stress::StressReport;

constexpr std::array<std::string_view, 4> kVerdicts = {"passed", "errors", "cut_short", "untested"};
constexpr std::array<std::string_view, 4> kTrends = {"same", "better", "worse", "failing"};
constexpr std::array<std::string_view, 3> kUnits = {"nanoseconds", "bytes_per_second",
                                                    "parts_per_million"};

std::string_view identifier(stress::Verdict verdict) {
  return kVerdicts.at(static_cast<size_t>(verdict));
}
std::string_view identifier(stress::Trend trend) { return kTrends.at(static_cast<size_t>(trend)); }
std::string_view identifier(stress::Unit unit) { return kUnits.at(static_cast<size_t>(unit)); }

Json json_device(const stress::StressedDevice& device) {
  return {
      {"index", json_or_null(device.index)},        {"name", json_text_or_null(device.name)},
      {"uuid", json_text_or_null(device.uuid)},     {"pci_id", json_text_or_null(device.pci_id)},
      {"driver", json_text_or_null(device.driver)}, {"total_bytes", device.total_bytes},
      {"is_simulated", device.is_simulated}};
}

Json json_others(const std::vector<stress::OtherUser>& others) {
  Json json = Json::array();
  for (const stress::OtherUser& other : others) {
    json.push_back({{"pid", other.pid},
                    {"user", json_text_or_null(other.user)},
                    {"command", json_text_or_null(other.command)},
                    {"used_bytes", json_or_null(other.used_bytes)}});
  }
  return json;
}

Json json_passes(const std::vector<stress::Pass>& passes) {
  Json json = Json::array();
  for (const stress::Pass& pass : passes) {
    json.push_back({{"pattern", pass.pattern},
                    {"written_bytes", pass.written_bytes},
                    {"compared_bytes", pass.compared_bytes},
                    {"bad_words", pass.bad_words},
                    {"duration_ns", pass.duration_ns},
                    {"is_sampled", pass.is_sampled},
                    {"is_complete", pass.is_complete}});
  }
  return json;
}

Json json_fill(const stress::FillReport& fill) {
  return {{"free_bytes", fill.free_bytes},
          {"obtained_bytes", fill.obtained_bytes},
          {"handles", fill.handles},
          {"released_bytes", fill.released_bytes},
          {"written_bytes", fill.written_bytes},
          {"compared_bytes", fill.compared_bytes},
          {"covered_bytes", fill.covered_bytes},
          {"passes", json_passes(fill.passes)}};
}

Json json_storm(const stress::StormReport& storm) {
  return {{"allocations", storm.allocations},
          {"ooms", storm.ooms},
          {"checked_blocks", storm.checked_blocks},
          {"validations", storm.validations},
          {"invalid", json_text_or_null(storm.invalid)},
          {"peak_requested_bytes", storm.peak_requested_bytes},
          {"peak_reserved_bytes", storm.peak_reserved_bytes}};
}

Json json_figures(const std::vector<stress::Figure>& figures) {
  Json json = Json::array();
  for (const stress::Figure& figure : figures) {
    json.push_back({{"name", json_text(figure.name)},
                    {"size_bytes", figure.size_bytes},
                    {"unit", identifier(figure.unit)},
                    {"count", figure.count},
                    {"low", figure.low},
                    {"quarter", figure.quarter},
                    {"median", figure.median},
                    {"three_quarters", figure.three_quarters},
                    {"p99", figure.p99},
                    {"high", figure.high},
                    {"first_power", figure.first_power},
                    {"histogram", figure.histogram}});
  }
  return json;
}

// As text: readers of JSON round numbers of 64 bits.
Json json_word(uint64_t word) { return fmt::format("0x{:016x}", word); }

Json json_bad(const stress::BadWords& bad) {
  Json first = Json::array();
  for (const stress::BadWord& word : bad.first) {
    first.push_back({{"address", json_word(word.address)},
                     {"handle", word.handle == 0 ? Json() : json_word(word.handle)},
                     {"offset_bytes", word.offset_bytes},
                     {"pattern", word.pattern},
                     {"expected", json_word(word.expected)},
                     {"found", json_word(word.found)},
                     {"bits", json_word(word.bits())}});
  }
  return {{"count", bad.count}, {"by_bit", bad.by_bit}, {"first", std::move(first)}};
}

Json json_failures(const std::vector<stress::CallFailure>& failures) {
  Json json = Json::array();
  for (const stress::CallFailure& failure : failures) {
    json.push_back(
        {{"call", failure.call}, {"answer", json_text(failure.answer)}, {"phase", failure.phase}});
  }
  return json;
}

Json json_moment(const std::optional<watch::Device>& device) {
  if (!device) return {};
  const auto& rows = device->health.remapped_rows;
  return {{"temperature_celsius", json_or_null(device->sample.celsius)},
          {"power_milliwatts", json_or_null(device->sample.milliwatts)},
          {"ecc_corrected", json_or_null(device->health.ecc_since_boot.corrected)},
          {"ecc_uncorrected", json_or_null(device->health.ecc_since_boot.uncorrected)},
          {"rows_remapped_corrected", rows ? Json(rows->corrected) : Json()},
          {"rows_remapped_uncorrected", rows ? Json(rows->uncorrected) : Json()}};
}

Json json_health(const stress::Health& health) {
  const stress::Extremes& extremes = health.extremes;
  Json reasons = Json::array();
  for (const std::string& reason : extremes.throttle_reasons) reasons.push_back(json_text(reason));
  Json incidents = Json::array();
  for (const stress::Incident& incident : stress::incidents(health))
    incidents.push_back({{"text", json_text(incident.text)}, {"is_error", incident.is_error}});
  Json json = {{"before", json_moment(health.before)},
               {"after", json_moment(health.after)},
               {"samples", extremes.sample_count},
               {"highest_celsius", json_or_null(extremes.celsius)},
               {"highest_memory_celsius", json_or_null(extremes.memory_celsius)},
               {"highest_milliwatts", json_or_null(extremes.milliwatts)},
               {"lowest_core_mhz", json_or_null(extremes.lowest_core_mhz)}};
  json["throttle_reasons"] = std::move(reasons);
  json["incidents"] = std::move(incidents);
  return json;
}

Json json_comparison(const std::optional<stress::Comparison>& comparison) {
  if (!comparison) return {};
  Json changes = Json::array();
  for (const stress::Change& change : comparison->changes) {
    changes.push_back({{"name", json_text(change.name)},
                       {"size_bytes", change.size_bytes},
                       {"unit", identifier(change.unit)},
                       {"before", change.before},
                       {"after", change.after},
                       {"worse", change.worse},
                       {"noise", change.noise},
                       {"trend", identifier(change.trend)}});
  }
  Json missing = Json::array();
  for (const std::string& name : comparison->not_measured) missing.push_back(json_text(name));
  Json json = {{"before_time_unix_ns", comparison->before_time_ns},
               {"limit", comparison->limit},
               {"is_failing", comparison->is_failing()}};
  json["changes"] = std::move(changes);
  json["not_measured"] = std::move(missing);
  return json;
}

}  // namespace

std::string stress_json(const StressReport& report,
                        const std::optional<stress::Comparison>& comparison) {
  Json document = {{"schema", "vram.stress/1"},
                   {"time_unix_ns", report.time_ns},
                   {"host", report.host.empty() ? Json() : json_text(report.host)},
                   {"verdict", identifier(report.verdict())},
                   {"was_cut_short", report.was_cut_short},
                   {"requested_ns", report.requested_ns},
                   {"duration_ns", report.duration_ns},
                   {"seed", report.seed},
                   {"leave_bytes", report.leave_bytes}};
  document["device"] = json_device(report.device);
  document["others"] = json_others(report.others);
  document["fill"] = json_fill(report.fill);
  document["storm"] = json_storm(report.storm);
  document["figures"] = json_figures(report.figures);
  document["bad_words"] = json_bad(report.bad);
  document["failures"] = json_failures(report.failures);
  document["health"] = json_health(report.health);
  document["comparison"] = json_comparison(comparison);
  return document.dump(2, ' ', true) + "\n";
}

// Reading vram.stress/1: nothing in the text is believed before it is looked at.

namespace {

using stress::Figure;
using stress::Unit;

constexpr size_t kMaxFigures = 10'000;

bool read(const Json& object, const char* name, uint64_t* value) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  *value = found->get<uint64_t>();
  return true;
}

std::optional<std::string> text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<Unit> unit_of(const std::string& text) {
  for (const Unit unit : {Unit::kNanoseconds, Unit::kBytesPerSecond, Unit::kPartsPerMillion}) {
    if (text == identifier(unit)) return unit;
  }
  return std::nullopt;
}

// Quarters that are out of order would make a span below zero.
std::optional<Figure> figure_of(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto name = text_of(json, "name");
  const auto unit = unit_of(text_of(json, "unit").value_or(""));
  if (!name || !unit) return std::nullopt;
  Figure figure{.name = *name, .unit = *unit};
  const bool is_whole =
      read(json, "size_bytes", &figure.size_bytes) && read(json, "count", &figure.count) &&
      read(json, "quarter", &figure.quarter) && read(json, "median", &figure.median) &&
      read(json, "three_quarters", &figure.three_quarters);
  if (!is_whole || figure.quarter > figure.median || figure.median > figure.three_quarters)
    return std::nullopt;
  return figure;
}

tl::unexpected<Error> not_a_report(std::string_view what) {
  return fail(Code::kBadInput,
              "expected a report of an earlier test (vram doctor --stress --json -o FILE), found "
              "{}: name another file",
              what);
}

}  // namespace

Result<stress::StressReport> read_stress_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return not_a_report(tr("no JSON object"));
  if (text_of(json, "schema") != "vram.stress/1")
    return not_a_report(tr("a document whose schema is not vram.stress/1"));
  const auto device = json.find("device");
  const auto figures = json.find("figures");
  if (device == json.end() || !device->is_object() || figures == json.end() ||
      !figures->is_array() || figures->size() > kMaxFigures) {
    return not_a_report(tr("one without its device or its figures"));
  }
  stress::StressReport report;
  uint64_t time_ns = 0;
  if (read(json, "time_unix_ns", &time_ns)) report.time_ns = static_cast<int64_t>(time_ns);
  report.device.uuid = text_of(*device, "uuid");
  for (const Json& each : *figures) {
    auto figure = figure_of(each);
    if (!figure) return not_a_report(tr("a figure that lacks something"));
    report.figures.push_back(*std::move(figure));
  }
  return report;
}

}  // namespace vram::show
