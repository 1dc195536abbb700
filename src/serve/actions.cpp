#include "serve/actions.hpp"

#include "base/text.hpp"
#include "serve/http.hpp"
#include "serve/json_body.hpp"
#include "show/live/free.hpp"
#include "watch/process_table.hpp"
#include "watch/reclaim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace vram::serve {
namespace {

constexpr std::string_view kSilencesPath = "/api/v1/silences";
constexpr std::string_view kFreePath = "/api/v1/free";
constexpr int64_t kMaxTrimNs = 60 * kSignedSecondNs;
constexpr int64_t kMaxRecordNs = 600 * kSignedSecondNs;
constexpr uint64_t kMaxRecordSteps = 100'000;
constexpr uint64_t kAnswerNs = 60 * kSecondNs;  // of a process, besides what it is to record

std::string document_text(const Json& document) {
  return document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<std::string> added_silence(alerts::AlertEngine& engine, const std::string& body,
                                  int64_t now_unix_ns) {
  VRAM_TRY_ASSIGN(const auto members,
                  JsonBody::parse(body, {"alert", "rule", "duration", "comment"}));
  VRAM_TRY_ASSIGN(const auto alert, members.text("alert"));
  VRAM_TRY_ASSIGN(const auto rule, members.text("rule"));
  VRAM_TRY_ASSIGN(const auto length_ns, members.duration_ns("duration"));
  VRAM_TRY_ASSIGN(const auto comment, members.text("comment"));
  if (!length_ns) return fail(Code::kBadInput, "expected a duration, such as \"2h\"");
  VRAM_TRY_ASSIGN(const auto added, engine.silence({.alert = alert.value_or(""),
                                                    .rule = rule.value_or(""),
                                                    .comment = printable(comment.value_or(""))},
                                                   *length_ns, now_unix_ns));
  Json document = {{"schema", "vram.silence/1"}};
  document["silence"] = alerts::json_silence(added);
  return document_text(document);
}

Result<std::string> ended_silence(alerts::AlertEngine& engine, const std::string& body,
                                  int64_t now_unix_ns) {
  VRAM_TRY_ASSIGN(const auto members, JsonBody::parse(body, {"number"}));
  VRAM_TRY_ASSIGN(const auto number, members.number("number"));
  if (!number) return fail(Code::kBadInput, "expected the number of a silence");
  VRAM_TRY(engine.end_silence(*number, now_unix_ns));
  return engine.silences_json();
}

// What the processes of this machine could release now.
watch::Reclaimable reclaimable_of(const ActionSettings& settings) {
  const auto sampled = settings.feed.latest();
  watch::ProcessTable table("/proc", settings.commands);
  auto found = watch::find_reclaimable(sampled ? sampled->snapshot : watch::Snapshot(),
                                       settings.board_folders(), table);
  for (watch::DeadPage& page : found.dead)
    page.command = watch::shown_command(page.command, settings.commands).value_or("");
  return found;
}

struct TrimRequest {
  watch::TrimChoice choice;
  uint64_t timeout_ns = 0;
};

Result<TrimRequest> parse_trim(const std::string& body) {
  VRAM_TRY_ASSIGN(const auto members,
                  JsonBody::parse(body, {"pids", "all", "device", "bytes", "timeout"}));
  TrimRequest request;
  VRAM_TRY_ASSIGN(request.choice.pids, members.numbers("pids"));
  VRAM_TRY_ASSIGN(const auto all, members.flag("all"));
  if (all.value_or(false) != request.choice.pids.empty())
    return fail(Code::kBadInput, "expected 'pids', or 'all' as true: one of them");
  VRAM_TRY_ASSIGN(const auto device, members.number("device"));
  if (device)
    request.choice.device = static_cast<uint32_t>(std::min<uint64_t>(*device, UINT32_MAX));
  VRAM_TRY_ASSIGN(request.choice.bytes, members.number("bytes"));
  VRAM_TRY_ASSIGN(const auto timeout_ns, members.duration_ns("timeout"));
  const int64_t wait_ns = timeout_ns.value_or(10 * kSignedSecondNs);
  if (wait_ns < 0 || wait_ns > kMaxTrimNs)
    return fail(Code::kBadInput, "timeout: expected at most 60s");
  request.timeout_ns = static_cast<uint64_t>(wait_ns);
  auto& pids = request.choice.pids;
  std::ranges::sort(pids);
  const auto repeated = std::ranges::unique(pids);
  pids.erase(repeated.begin(), repeated.end());
  return request;
}

// As vram free: the processes are chosen at once, so that a wrong one is an error of the request.
Result<uint64_t> start_trim(const ActionSettings& settings, Jobs& jobs, const std::string& body) {
  VRAM_TRY_ASSIGN(const auto request, parse_trim(body));
  auto found = reclaimable_of(settings);
  VRAM_TRY_ASSIGN(auto orders, watch::choose(found, request.choice));
  return jobs.start("trim", Json::parse(body),
                    [found = std::move(found), orders = std::move(orders),
                     timeout_ns = request.timeout_ns]() -> Result<Json> {
                      const auto answers = watch::request_trim(orders, timeout_ns);
                      return Json::parse(show::free_json(found, answers));
                    });
}

Result<uint32_t> pid_of(const JsonBody& members) {
  VRAM_TRY_ASSIGN(const auto pid, members.number("pid"));
  if (!pid || *pid == 0 || *pid > UINT32_MAX)
    return fail(Code::kBadInput, "expected 'pid', the pid of a process");
  return static_cast<uint32_t>(*pid);
}

Result<std::string> watched_segments(LiveSegments& segments, const std::string& body) {
  VRAM_TRY_ASSIGN(const auto members, JsonBody::parse(body, {"pid"}));
  VRAM_TRY_ASSIGN(const auto pid, pid_of(members));
  return segments.watch(pid);
}

struct RecordRequest {
  uint32_t pid = 0;
  watch::RecordOrder order;
};

Result<RecordRequest> parse_record(const std::string& body) {
  VRAM_TRY_ASSIGN(const auto members, JsonBody::parse(body, {"pid", "duration", "steps"}));
  RecordRequest request;
  VRAM_TRY_ASSIGN(request.pid, pid_of(members));
  VRAM_TRY_ASSIGN(request.order.steps, members.number("steps"));
  VRAM_TRY_ASSIGN(const auto duration_ns, members.duration_ns("duration"));
  if (request.order.steps && duration_ns)
    return fail(Code::kBadInput, "expected 'steps' or 'duration', and not both");
  if (request.order.steps == 0U || request.order.steps.value_or(1) > kMaxRecordSteps)
    return fail(Code::kBadInput, "steps: expected 1 to {}", kMaxRecordSteps);
  if (duration_ns && (*duration_ns <= 0 || *duration_ns > kMaxRecordNs))
    return fail(Code::kBadInput, "duration: expected more than 0s and at most 10min");
  if (duration_ns) request.order.duration_ns = static_cast<uint64_t>(*duration_ns);
  return request;
}

// "20261128-051500-4711.vtrace", of the time in UTC.
std::string recording_name(uint32_t pid, int64_t now_unix_ns) {
  const time_t seconds = now_unix_ns / kSignedSecondNs;
  tm parts{};
  (void)gmtime_r(&seconds, &parts);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{}.vtrace", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     pid);
}

Result<uint64_t> start_recording(const ActionSettings& settings, Jobs& jobs,
                                 const std::string& body) {
  VRAM_TRY_ASSIGN(const auto request, parse_record(body));
  if (settings.recordings.empty())
    return fail(Code::kBadInput,
                "there is no folder for recordings: start the server with --recordings DIR");
  const std::string name = recording_name(request.pid, settings.now_unix_ns());
  return jobs.start("record", Json::parse(body),
                    [request, name, path = settings.recordings + "/" + name,
                     folders = settings.board_folders()]() -> Result<Json> {
                      VRAM_TRY_ASSIGN(const auto recording,
                                      watch::request_recording(
                                          folders, request.pid, request.order,
                                          kAnswerNs + request.order.duration_ns.value_or(0)));
                      VRAM_TRY_ASSIGN(const auto bytes, watch::save_recording(recording, path));
                      return Json({{"name", name}, {"size_bytes", bytes}});
                    });
}

Response started(const Result<uint64_t>& number) {
  if (!number) return error_response(number.error());
  Response response = json_response(
      document_text({{"schema", "vram.job/1"}, {"number", *number}, {"path", "/api/v1/jobs"}}));
  response.status = 202;
  return response;
}

Response change_answer(const Result<std::string>& text) {
  return text ? json_response(*text) : error_response(text.error());
}

Route change(std::string path, std::string about,
             std::function<Response(const Request&, std::string_view)> answer) {
  return {std::move(path), {}, std::move(about), std::move(answer), true};
}

}  // namespace

std::vector<Route> silence_routes(const std::shared_ptr<alerts::AlertEngine>& alert_engine,
                                  const std::function<int64_t()>& now_unix_ns) {
  const std::string path(kSilencesPath);
  return {{path,
           {},
           "the silences of alerts",
           [alert_engine](const Request&, std::string_view) {
             return json_response(alert_engine->silences_json());
           }},
          change(path, "silences an alert, or all of a rule",
                 [alert_engine, now_unix_ns](const Request& request, std::string_view) {
                   return change_answer(added_silence(*alert_engine, request.body, now_unix_ns()));
                 }),
          change(path + "/end", "ends a silence",
                 [alert_engine, now_unix_ns](const Request& request, std::string_view) {
                   return change_answer(ended_silence(*alert_engine, request.body, now_unix_ns()));
                 })};
}

std::vector<Route> action_routes(const ActionSettings& settings, const std::shared_ptr<Jobs>& jobs,
                                 const std::shared_ptr<LiveSegments>& segments) {
  return {{std::string(kFreePath),
           {},
           "what processes could release, as vram free --json",
           [settings](const Request&, std::string_view) {
             return json_response(show::free_json(reclaimable_of(settings)));
           }},
          {"/api/v1/jobs",
           {},
           "requests to processes, and what came of them",
           [jobs](const Request&, std::string_view) { return json_response(jobs->json()); }},
          change("/api/v1/trim", "asks processes to release memory that they cache",
                 [settings, jobs](const Request& request, std::string_view) {
                   return started(start_trim(settings, *jobs, request.body));
                 }),
          change("/api/v1/record", "asks a process to record itself",
                 [settings, jobs](const Request& request, std::string_view) {
                   return started(start_recording(settings, *jobs, request.body));
                 }),
          change("/api/v1/segments",
                 "the segments of a process's allocators, and asks it for newer ones",
                 [segments](const Request& request, std::string_view) {
                   return change_answer(watched_segments(*segments, request.body));
                 })};
}

bool is_about_actions(const Request& request) {
  return request.method == Method::kPost || request.path == kFreePath;
}

}  // namespace vram::serve
