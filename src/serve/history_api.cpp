#include "serve/history_api.hpp"

#include "base/bytes.hpp"
#include "serve/errors.hpp"
#include "serve/target.hpp"
#include "serve/when.hpp"
#include "show/status_objects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

namespace vram::serve {
namespace {

using show::Json;
using watch::History;

constexpr std::string_view kPath = "/api/v1/history";
constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr int64_t kMsNs = 1'000'000;
// More points a series are no plot but a copy of the file, and this process is a small one.
constexpr int64_t kMostPoints = 5'000;
constexpr int64_t kUsualPoints = 500;
constexpr size_t kMostProcesses = 100;

struct Past {
  std::shared_ptr<const History> history;
  watch::CommandLines commands;
};

struct Span {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  int64_t step_ns = 0;
};

Result<int64_t> time_of(const Query& query, std::string_view name, int64_t usual, int64_t now_ns) {
  const auto text = parameter(query, name);
  if (!text) return usual;
  auto time = parse_when(*text, now_ns);
  if (!time) return fail(Code::kBadInput, "{}: {}", name, time.error().message);
  return time;
}

Result<int64_t> step_of(const Query& query, int64_t length_ns) {
  const auto text = parameter(query, "step");
  if (!text) return std::max(length_ns / kUsualPoints, 1000 * kMsNs);
  const auto step_ns = parse_duration_ns(*text);
  if (!step_ns) return fail(Code::kBadInput, "step: {}", step_ns.error().message);
  if (*step_ns < kMsNs) return fail(Code::kBadInput, "step: expected 1ms or more");
  if (length_ns / *step_ns > kMostPoints)
    return fail(Code::kBadInput,
                "step: from 'from' to 'to' there would be more than {} points; take {} or more, "
                "or a shorter time",
                kMostPoints, format_duration_ns(length_ns / kMostPoints + 1));
  return *step_ns;
}

Result<Span> span_of(const Query& query, int64_t now_ns) {
  const auto to_ns = time_of(query, "to", now_ns, now_ns);
  if (!to_ns) return tl::unexpected(to_ns.error());
  const auto from_ns = time_of(query, "from", std::max<int64_t>(*to_ns - kHourNs, 0), now_ns);
  if (!from_ns) return tl::unexpected(from_ns.error());
  if (*from_ns >= *to_ns) return fail(Code::kBadInput, "expected 'from' to be before 'to'");
  const auto step_ns = step_of(query, *to_ns - *from_ns);
  if (!step_ns) return tl::unexpected(step_ns.error());
  return Span{*from_ns, *to_ns, *step_ns};
}

std::optional<std::string> text_parameter(const Query& query, std::string_view name) {
  const auto text = parameter(query, name);
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

Json text_or_null(const std::optional<std::string>& text) {
  return text && !text->empty() ? show::json_text(*text) : Json();
}

Json device_json(const watch::HistoryDevice& device) {
  return {{"key", show::json_text(device.key)},
          {"name", text_or_null(device.name)},
          {"index", device.index},
          {"total_bytes", show::json_or_null(device.total_bytes)}};
}

Json points_json(const std::vector<watch::HistoryPoint>& points) {
  Json list = Json::array();
  for (const watch::HistoryPoint& point : points) {
    list.push_back({{"time_unix_ns", point.time_ns},
                    {"average", point.average},
                    {"minimum", point.minimum},
                    {"maximum", point.maximum},
                    {"count", point.count}});
  }
  return list;
}

Json process_json(const watch::HistoryProcess& process, watch::CommandLines commands) {
  return {{"pid", process.pid},
          {"start_ticks", show::json_or_null(process.start_ticks)},
          {"user", text_or_null(process.user)},
          {"command", text_or_null(shown_command(process.command, commands))},
          {"container", text_or_null(process.container)},
          {"pod", text_or_null(process.pod)},
          {"slurm_job", text_or_null(process.slurm_job)}};
}

Json head(std::string_view schema, const Span& span, int64_t now_ns) {
  return {{"schema", schema},
          {"time_unix_ns", now_ns},
          {"from_unix_ns", span.from_ns},
          {"to_unix_ns", span.to_ns}};
}

Response refused(const Error& error) {
  if (error.code == Code::kBadInput) return error_response(400, error.message);
  return error_response(error.code == Code::kNotFound ? 404 : 503, error.message);
}

Response unknown_metric() {
  std::string names;
  for (const watch::Metric& metric : watch::metrics())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", metric.name);
  return error_response(400, fmt::format("metric: expected one of {}", names));
}

Response courses(const Past& past, const Query& query, int64_t now_ns) {
  const auto metric = watch::find_metric(parameter(query, "metric").value_or(""));
  if (!metric) return unknown_metric();
  const auto span = span_of(query, now_ns);
  if (!span) return refused(span.error());
  const auto found = past.history->query({.metric = std::string(metric->name),
                                          .device = text_parameter(query, "device"),
                                          .from_ns = span->from_ns,
                                          .to_ns = span->to_ns,
                                          .step_ns = span->step_ns});
  if (!found) return refused(found.error());
  Json document = head("vram.history/1", *span, now_ns);
  document["metric"] = metric->name;
  document["unit"] = metric->unit;
  Json series = Json::array();
  for (const watch::Series& each : *found) {
    series.push_back({{"device", device_json(each.device)},
                      {"step_ns", each.step_ns},
                      {"points", points_json(each.points)}});
  }
  document["series"] = std::move(series);
  return json_response(document.dump(-1, ' ', true) + "\n");
}

Result<size_t> most_of(const Query& query) {
  constexpr size_t kUsual = 10;
  const auto text = parameter(query, "most");
  if (!text) return kUsual;
  size_t most = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), most);
  if (error != std::errc() || end != text->data() + text->size() || most == 0 ||
      most > kMostProcesses)
    return fail(Code::kBadInput, "most: expected a number from 1 to {}", kMostProcesses);
  return most;
}

Response holders(const Past& past, const Query& query, int64_t now_ns) {
  const auto span = span_of(query, now_ns);
  if (!span) return refused(span.error());
  const auto most = most_of(query);
  if (!most) return refused(most.error());
  const auto found = past.history->processes({.device = text_parameter(query, "device"),
                                              .from_ns = span->from_ns,
                                              .to_ns = span->to_ns,
                                              .step_ns = span->step_ns,
                                              .most = *most});
  if (!found) return refused(found.error());
  Json document = head("vram.history_processes/1", *span, now_ns);
  Json series = Json::array();
  for (const watch::ProcessSeries& each : *found) {
    series.push_back({{"process", process_json(each.process, past.commands)},
                      {"device", device_json(each.device)},
                      {"step_ns", each.step_ns},
                      {"points", points_json(each.points)}});
  }
  document["series"] = std::move(series);
  return json_response(document.dump(-1, ' ', true) + "\n");
}

using HistoryAnswer = Response (*)(const Past&, const Query&, int64_t);

Route route_of(std::string path, std::vector<std::string> parameters, std::string about,
               HistoryAnswer answer, Past past, std::function<int64_t()> now_ns) {
  return {std::move(path), std::move(parameters), std::move(about),
          [answer, past = std::move(past), now_ns = std::move(now_ns)](const Request& request,
                                                                       std::string_view) {
            if (!past.history)
              return error_response(404, "there is no history: start it with --history FILE");
            return answer(past, request.query, now_ns());
          }};
}

}  // namespace

std::vector<Route> history_routes(const std::shared_ptr<const History>& history,
                                  const std::function<int64_t()>& now_ns,
                                  watch::CommandLines commands) {
  const std::string path(kPath);
  const Past past{history, commands};
  return {route_of(path, {"metric", "device", "from", "to", "step"},
                   "a figure's course on each GPU, or on one", courses, past, now_ns),
          route_of(path + "/processes", {"device", "from", "to", "step", "most"},
                   "the processes that held the memory", holders, past, now_ns)};
}

bool is_about_history(const Request& request) { return request.path.starts_with(kPath); }

}  // namespace vram::serve
