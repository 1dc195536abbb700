#include "serve/history_api.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "serve/http.hpp"
#include "serve/target.hpp"
#include "show/live/status_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

namespace vram::serve {
namespace {

using history::History;

constexpr std::string_view kPath = "/api/v1/history";
constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr int64_t kMsNs = 1'000'000;
// More points a series are no plot but a copy of the file, and this process is a small one.
constexpr int64_t kMaxPoints = 5'000;
constexpr int64_t kDefaultPoints = 500;
constexpr size_t kMaxProcesses = 100;
constexpr int64_t kMaxHolderPoints = 50'000;  // a device
constexpr size_t kPointsAtOnce = 8'192;       // in memory for an answer, 320 KiB

struct Past {
  std::shared_ptr<const History> history;
  watch::CommandLines commands;
};

struct Span {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  int64_t step_ns = 0;
};

Result<int64_t> time_of(const Query& query, std::string_view name, int64_t fallback,
                        int64_t now_ns) {
  const auto text = parameter(query, name);
  if (!text) return fallback;
  auto time = parse_when(*text, now_ns);
  if (!time) return fail(Code::kBadInput, "{}: {}", name, time.error().message);
  return time;
}

Result<int64_t> step_of(const Query& query, int64_t length_ns) {
  const auto text = parameter(query, "step");
  if (!text) return std::max(length_ns / kDefaultPoints, 1000 * kMsNs);
  const auto step_ns = parse_duration_ns(*text);
  if (!step_ns) return fail(Code::kBadInput, "step: {}", step_ns.error().message);
  if (*step_ns < kMsNs) return fail(Code::kBadInput, "step: expected 1ms or more");
  if (length_ns / *step_ns > kMaxPoints)
    return fail(Code::kBadInput,
                "step: from 'from' to 'to' there would be more than {} points; take {} or more, "
                "or a shorter time",
                kMaxPoints, format_duration_ns(length_ns / kMaxPoints + 1));
  return *step_ns;
}

Result<Span> span_of(const Query& query, int64_t now_ns) {
  VRAM_TRY_ASSIGN(const auto to_ns, time_of(query, "to", now_ns, now_ns));
  VRAM_TRY_ASSIGN(const auto from_ns,
                  time_of(query, "from", std::max<int64_t>(to_ns - kHourNs, 0), now_ns));
  if (from_ns >= to_ns) return fail(Code::kBadInput, "expected 'from' to be before 'to'");
  VRAM_TRY_ASSIGN(const auto step_ns, step_of(query, to_ns - from_ns));
  return Span{from_ns, to_ns, step_ns};
}

std::optional<std::string> text_parameter(const Query& query, std::string_view name) {
  const auto text = parameter(query, name);
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

Json device_json(const history::HistoryDevice& device) {
  return {{"key", json_text(device.key)},
          {"name", json_text_or_null(device.name)},
          {"index", device.index},
          {"total_bytes", json_or_null(device.total_bytes)}};
}

Json process_json(const history::HistoryProcess& process, watch::CommandLines commands) {
  return {{"pid", process.pid},
          {"start_ticks", json_or_null(process.start_ticks)},
          {"user", json_text_or_null(process.user)},
          {"command", json_text_or_null(shown_command(process.command, commands))},
          {"container", json_text_or_null(process.container)},
          {"pod", json_text_or_null(process.pod)},
          {"slurm_job", json_text_or_null(process.slurm_job)}};
}

Json head(std::string_view schema, const Span& span, int64_t now_ns) {
  return {{"schema", schema},
          {"time_unix_ns", now_ns},
          {"from_unix_ns", span.from_ns},
          {"to_unix_ns", span.to_ns}};
}

Response unknown_metric() {
  std::string names;
  for (const history::Metric& metric : history::metrics())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", metric.name);
  return error_response(400, fmt::format("metric: expected one of {}", names));
}

// All devices', or the one that is asked for.
Result<std::vector<std::string>> devices_of(const History& history, const Query& query) {
  if (const auto key = parameter(query, "device")) return std::vector{std::string(*key)};
  VRAM_TRY_ASSIGN(const auto devices, history.devices());
  std::vector<std::string> keys;
  for (const history::HistoryDevice& device : devices) keys.push_back(device.key);
  return keys;
}

Response streamed(const Json& document, SeriesStream::Source source) {
  auto stream = SeriesStream::begin(document, std::move(source));
  if (!stream) return error_response(stream.error());
  return {.status = 200,
          .content_type = std::string(kJsonType),
          .body = nullptr,
          .stream = *std::move(stream),
          .headers = {}};
}

Response courses(const Past& past, const Query& query, int64_t now_ns) {
  const auto metric = history::find_metric(parameter(query, "metric").value_or(""));
  if (!metric) return unknown_metric();
  const auto span = span_of(query, now_ns);
  if (!span) return error_response(span.error());
  Json document = head("vram.history/1", *span, now_ns);
  document["metric"] = metric->name;
  document["unit"] = metric->unit;
  auto devices = devices_of(*past.history, query);
  if (!devices) return error_response(devices.error());
  // A device at a time.
  const auto source = [history = past.history, name = std::string(metric->name), span = *span,
                       keys = *std::move(devices),
                       next = size_t{0}]() mutable -> Result<std::vector<SeriesPart>> {
    std::vector<SeriesPart> parts;
    if (next == keys.size()) return parts;
    VRAM_TRY_ASSIGN(auto found, history->query({.metric = name,
                                                .device = keys[next++],
                                                .from_ns = span.from_ns,
                                                .to_ns = span.to_ns,
                                                .step_ns = span.step_ns}));
    for (history::Series& each : found)
      parts.push_back({Json({{"device", device_json(each.device)}, {"step_ns", each.step_ns}}),
                       std::move(each.points)});
    return parts;
  };
  return streamed(document, source);
}

Result<size_t> most_of(const Query& query) {
  constexpr size_t kDefaultProcesses = 10;
  const auto text = parameter(query, "most");
  if (!text) return kDefaultProcesses;
  size_t limit = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (error != std::errc() || end != text->data() + text->size() || limit == 0 ||
      limit > kMaxProcesses)
    return fail(Code::kBadInput, "most: expected a number from 1 to {}", kMaxProcesses);
  return limit;
}

Response holders(const Past& past, const Query& query, int64_t now_ns) {
  const auto span = span_of(query, now_ns);
  if (!span) return error_response(span.error());
  const auto limit = most_of(query);
  if (!limit) return error_response(limit.error());
  // What a device's points may take while they are sent.
  const int64_t steps = (span->to_ns - span->from_ns) / span->step_ns;
  if (steps > 0 && static_cast<int64_t>(*limit) > kMaxHolderPoints / steps)
    return error_response(
        400, fmt::format("expected at most {} points a device, which are 'most' times the steps "
                         "from 'from' to 'to': found {} times {}; take fewer processes or a longer "
                         "'step'",
                         kMaxHolderPoints, *limit, steps));
  history::ProcessQuery process_query{.device = text_parameter(query, "device"),
                                      .from_ns = span->from_ns,
                                      .to_ns = span->to_ns,
                                      .step_ns = span->step_ns,
                                      .limit = *limit};
  auto holders = past.history->holders(process_query);
  if (!holders) return error_response(holders.error());
  // As many processes of a device at a time as have few points together.
  const size_t at_once = std::max<size_t>(1, kPointsAtOnce / static_cast<size_t>(steps + 1));
  const auto source = [past, process_query, at_once, all = *std::move(holders),
                       next = size_t{0}]() mutable -> Result<std::vector<SeriesPart>> {
    std::vector<SeriesPart> parts;
    while (parts.empty() && next < all.size()) {
      process_query.device = all[next].device.key;
      process_query.only.clear();
      for (; next < all.size() && process_query.only.size() < at_once &&
             all[next].device.key == *process_query.device;
           ++next)
        process_query.only.push_back(all[next].id);
      VRAM_TRY_ASSIGN(auto found, past.history->processes(process_query));
      for (history::ProcessSeries& each : found)
        parts.push_back({Json({{"process", process_json(each.process, past.commands)},
                               {"device", device_json(each.device)},
                               {"step_ns", each.step_ns}}),
                         std::move(each.points)});
    }
    return parts;
  };
  return streamed(head("vram.history_processes/1", *span, now_ns), source);
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

namespace {

constexpr size_t kPieceBytes = size_t{32} << 10;
constexpr size_t kFactsBytes = 1024;  // about what the facts of a part take in memory

std::string compact(const Json& json) { return json.dump(-1, ' ', true); }

// As the JSON library writes doubles: 3 is 3.0, and what is no number null.
std::string number_text(double number) {
  if (!std::isfinite(number)) return "null";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void append_point(std::string& text, const history::HistoryPoint& point) {
  fmt::format_to(std::back_inserter(text),
                 R"({{"time_unix_ns":{},"average":{},"minimum":{},"maximum":{},"count":{}}})",
                 point.time_ns, number_text(point.average), number_text(point.minimum),
                 number_text(point.maximum), point.count);
}

}  // namespace

SeriesStream::SeriesStream(std::string text, Source source)
    : text_(std::move(text)), source_(std::move(source)) {}

Result<std::shared_ptr<Stream>> SeriesStream::begin(const Json& document, Source source) {
  std::string text = compact(document);
  text.back() = ',';  // was its closing brace
  text += "\"series\":[";
  std::shared_ptr<SeriesStream> stream(new SeriesStream(std::move(text), std::move(source)));
  VRAM_TRY(stream->load());
  return stream;
}

Result<> SeriesStream::load() {
  VRAM_TRY_ASSIGN(auto parts, source_());
  parts_ = std::move(parts);
  part_ = 0;
  return {};
}

// Of the part under way, as much as a piece has room for.
void SeriesStream::add_some(std::string& text) {
  SeriesPart& part = parts_[part_];
  if (!std::exchange(has_begun_, true)) {
    if (!std::exchange(is_first_, false)) text += ',';
    text += compact(part.facts);
    text.back() = ',';
    text += "\"points\":[";
  }
  for (; point_ < part.points.size() && text.size() < kPieceBytes; ++point_) {
    if (point_ > 0) text += ',';
    append_point(text, part.points[point_]);
  }
  if (point_ < part.points.size()) return;
  text += "]}";
  part = SeriesPart();
  ++part_;
  point_ = 0;
  has_begun_ = false;
}

Result<std::string> SeriesStream::next() {
  std::string text = std::exchange(text_, "");
  while (text.size() < kPieceBytes && !has_ended_) {
    if (parts_.empty()) {
      text += "]}\n";
      has_ended_ = true;
    } else if (part_ < parts_.size()) {
      add_some(text);
    } else if (const auto loaded = load(); !loaded) {
      return tl::unexpected(loaded.error());
    }
  }
  return text;
}

size_t SeriesStream::held_bytes() const {
  size_t bytes = 0;
  for (size_t i = part_; i < parts_.size(); ++i)
    bytes += kFactsBytes + parts_[i].points.capacity() * sizeof(history::HistoryPoint);
  return bytes;
}

}  // namespace vram::serve
