// Reading vram.stress/1: nothing in the text is believed before it is looked at.
#include "base/json.hpp"
#include "show/stress_json.hpp"

#include <array>

namespace vram::show {
namespace {

using doctor::Figure;
using doctor::Unit;

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

Result<doctor::StressReport> read_stress_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return not_a_report("no JSON object");
  if (text_of(json, "schema") != "vram.stress/1")
    return not_a_report("a document whose schema is not vram.stress/1");
  const auto device = json.find("device");
  const auto figures = json.find("figures");
  if (device == json.end() || !device->is_object() || figures == json.end() ||
      !figures->is_array() || figures->size() > kMaxFigures) {
    return not_a_report("one without its device or its figures");
  }
  doctor::StressReport report;
  uint64_t time_ns = 0;
  if (read(json, "time_unix_ns", &time_ns)) report.time_ns = static_cast<int64_t>(time_ns);
  report.device.uuid = text_of(*device, "uuid");
  for (const Json& each : *figures) {
    auto figure = figure_of(each);
    if (!figure) return not_a_report("a figure that lacks something");
    report.figures.push_back(*std::move(figure));
  }
  return report;
}

}  // namespace vram::show
