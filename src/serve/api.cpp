#include "serve/api.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "serve/body.hpp"
#include "serve/http.hpp"
#include "serve/openapi.hpp"
#include "serve/target.hpp"
#include "show/live/status_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace vram::serve {
namespace {

using watch::Sampled;
using watch::Snapshot;

Json document_of(std::string_view schema, const Snapshot& snapshot) {
  return {{"schema", schema},
          {"time_unix_ns", snapshot.time_ns},
          {"host", snapshot.host.empty() ? Json() : json_text(snapshot.host)}};
}

std::string text_of(const Json& document) { return document.dump(2, ' ', true) + "\n"; }

Json processes_json(const Snapshot& snapshot, const ProcessQuery& query) {
  Json list = Json::array();
  for (const watch::Process* process : select(snapshot, query))
    list.push_back(show::json_process(*process));
  return list;
}

std::string devices_text(const Snapshot& snapshot) {
  Json document = document_of("vram.devices/1", snapshot);
  Json devices = Json::array();
  for (const watch::Device& device : snapshot.devices) devices.push_back(show::json_device(device));
  document["devices"] = std::move(devices);
  document["notes"] = json_texts(snapshot.notes);
  return text_of(document);
}

Response device_answer(const Snapshot& snapshot, std::string_view key) {
  const watch::Device* const device = find_device(snapshot, key);
  if (device == nullptr)
    return error_response(
        404, fmt::format("there is no device '{}'; /api/v1/devices lists them, by index, uuid, "
                         "pci_id",
                         printable(key.substr(0, 100))));
  Json document = document_of("vram.device/1", snapshot);
  document["device"] = show::json_device(*device);
  document["processes"] =
      processes_json(snapshot, {.device = device->identity.index, .user = std::nullopt});
  return json_response(text_of(document));
}

Response processes_answer(const Snapshot& snapshot, const Query& request_query) {
  const auto query = parse_process_query(request_query, snapshot);
  if (!query) return error_response(400, query.error().message);
  Json document = document_of("vram.processes/1", snapshot);
  document["processes"] = processes_json(snapshot, *query);
  document["notes"] = json_texts(snapshot.notes);
  return json_response(text_of(document));
}

// An answer that is one document of the sample, for all clients.
template <typename Make>
Answer document_answer(Make make) {
  return [make, cache = std::make_shared<DocumentCache>()](const Sampled& sampled, const Request&,
                                                           std::string_view) {
    Response response = json_response("");
    response.body = cache->get(sampled.number, [&] { return make(sampled.snapshot); });
    return response;
  };
}

Route health_route(const SampleFeed& feed) {
  return {"/healthz", {}, "whether the figures are fresh: 200, or 503 and why", [feed](auto&&...) {
            const auto sampled = feed.latest();
            const Health health = health_of(sampled.get(), feed);
            Response response = json_response(health_json(health, sampled.get(), feed));
            if (health.freshness != Freshness::kFresh) response.status = 503;
            return response;
          }};
}

Route ready_route(const SampleFeed& feed) {
  return {"/readyz", {}, "200 once the GPUs have been sampled, until then 503", [feed](auto&&...) {
            const auto sampled = feed.latest();
            const Health health = health_of(sampled.get(), feed);
            Response response = json_response(health_json(health, sampled.get(), feed));
            if (health.freshness == Freshness::kStarting) response.status = 503;
            return response;
          }};
}

}  // namespace

Route route_of_sample(Route route, SampleFeed feed, Answer answer) {
  route.answer = [feed = std::move(feed), answer = std::move(answer)](const Request& request,
                                                                      std::string_view rest) {
    const auto sampled = feed.latest();
    const Health health = health_of(sampled.get(), feed);
    if (!sampled) return error_response(503, health.why);
    Response response = answer(*sampled, request, rest);
    add_age(response, health);
    return response;
  };
  return route;
}

void add_age(Response& response, const Health& health) {
  response.headers.emplace_back(
      kAgeHeader, fmt::format("{:.3f}", static_cast<double>(health.age_ns.value_or(0)) / 1e9));
}

std::vector<Route> live_routes(const SampleFeed& feed) {
  const auto of_sample = [&](std::string path, std::vector<std::string> parameters,
                             std::string about, Answer answer) {
    return route_of_sample({std::move(path), std::move(parameters), std::move(about), {}}, feed,
                           std::move(answer));
  };
  return {
      health_route(feed),
      ready_route(feed),
      of_sample("/api/v1/status", {}, "everything, as vram status --json",
                document_answer(show::status_json)),
      of_sample("/api/v1/devices", {}, "the GPUs", document_answer(devices_text)),
      of_sample("/api/v1/devices/{key}", {}, "one GPU, by uuid, PCI id or index, and its processes",
                [](const Sampled& sampled, const Request&, std::string_view key) {
                  return device_answer(sampled.snapshot, key);
                }),
      of_sample("/api/v1/processes", {"device", "user", "sort"},
                "the processes; sort by memory, busy, user or pid",
                [](const Sampled& sampled, const Request& request, std::string_view) {
                  return processes_answer(sampled.snapshot, request.query);
                })};
}

std::vector<Route> alert_routes(const std::shared_ptr<const alerts::AlertEngine>& alert_engine) {
  return {{"/api/v1/alerts",
           {},
           "what is wrong now, or was lately",
           [alert_engine](const Request&, std::string_view) {
             return json_response(alert_engine->alerts_json());
           }},
          {"/api/v1/rules",
           {},
           "the rules of alerts in force",
           [alert_engine](const Request&, std::string_view) {
             return json_response(alert_engine->rules_json());
           }}};
}

Route openapi_route() {
  const auto body = std::make_shared<Body>(openapi_json());
  return {"/api/v1/openapi.json", {}, "this API for programs: OpenAPI 3.1", [body](auto&&...) {
            Response response = json_response("");
            response.body = body;
            return response;
          }};
}

namespace {

using std::chrono::nanoseconds;

// A busy machine delays a sample now and then: that is no reason to page anybody.
constexpr nanoseconds kMinStaleAge = std::chrono::seconds(2);
constexpr int kMissedPeriods = 3;

std::string time_text(uint64_t ns) { return format_duration_ns(static_cast<int64_t>(ns)); }

std::string stale_text(uint64_t age_ns, uint64_t overdue_ns, nanoseconds period) {
  std::string age = fmt::format("the last sample of the GPUs started {} ago, expected one every {}",
                                time_text(age_ns), format_duration_ns(period.count()));
  if (overdue_ns == 0) return age;
  return fmt::format("{}; the one under way is {} late: a call of the driver hangs, see dmesg", age,
                     time_text(overdue_ns));
}

std::string_view word_of(Freshness freshness) {
  if (freshness == Freshness::kFresh) return "ok";
  return freshness == Freshness::kStale ? "stale" : "starting";
}

}  // namespace

Health health_of(const watch::Sampled* sampled, const SampleFeed& feed) {
  const uint64_t overdue_ns = feed.overdue_ns();
  if (sampled == nullptr) {
    const std::string late =
        overdue_ns == 0 ? "" : fmt::format("; it is {} late", time_text(overdue_ns));
    return {.age_ns = std::nullopt,
            .why = fmt::format("the first sample of the GPUs has not finished yet{}", late)};
  }
  const uint64_t now_ns = feed.now_ns();
  const uint64_t age_ns = now_ns > sampled->begin_ns ? now_ns - sampled->begin_ns : 0;
  const auto timeout = std::max(kMissedPeriods * feed.period, kMinStaleAge);
  if (age_ns <= static_cast<uint64_t>(timeout.count()))
    return {.freshness = Freshness::kFresh, .age_ns = age_ns, .why = ""};
  return {.freshness = Freshness::kStale,
          .age_ns = age_ns,
          .why = stale_text(age_ns, overdue_ns, feed.period)};
}

std::string health_json(const Health& health, const watch::Sampled* sampled,
                        const SampleFeed& feed) {
  const Json document = {
      {"schema", "vram.health/1"},
      {"status", word_of(health.freshness)},
      {"why", health.why.empty() ? Json() : Json(health.why)},
      {"time_unix_ns", sampled == nullptr ? Json() : Json(sampled->snapshot.time_ns)},
      {"age_ns", health.age_ns ? Json(*health.age_ns) : Json()},
      {"period_ns", feed.period.count()},
      {"sample_ns", sampled == nullptr ? Json() : Json(sampled->sample_duration_ns)},
      {"samples", sampled == nullptr ? 0 : sampled->number}};
  return document.dump(2, ' ', true) + "\n";
}

namespace {

constexpr std::array<std::pair<std::string_view, SortBy>, 4> kOrders = {
    {{"memory", SortBy::kMemory},
     {"pid", SortBy::kPid},
     {"user", SortBy::kUser},
     {"busy", SortBy::kBusy}}};

bool is_on(const watch::Process& process, uint32_t device) {
  return std::ranges::any_of(process.uses, [&](const auto& use) { return use.device == device; });
}

// On the one device, or on all; nothing where no figure is known.
template <typename Figure>
std::optional<uint64_t> sum(const watch::Process& process, const ProcessQuery& query,
                            Figure figure) {
  std::optional<uint64_t> total;
  for (const watch::Use& use : process.uses) {
    if (query.device && use.device != *query.device) continue;
    if (const auto& value = use.process.*figure) total = total.value_or(0) + *value;
  }
  return total;
}

std::optional<uint64_t> figure_of(const watch::Process& process, const ProcessQuery& query) {
  if (query.sort == SortBy::kBusy) return sum(process, query, &gpu::DeviceProcess::busy_percent);
  return sum(process, query, &gpu::DeviceProcess::used_bytes);
}

bool comes_first(const watch::Process& left, const watch::Process& right,
                 const ProcessQuery& query) {
  if (query.sort == SortBy::kUser && left.facts->user != right.facts->user) {
    if (!left.facts->user || !right.facts->user) return left.facts->user.has_value();
    return *left.facts->user < *right.facts->user;
  }
  if (query.sort == SortBy::kMemory || query.sort == SortBy::kBusy) {
    const auto mine = figure_of(left, query);
    const auto other = figure_of(right, query);
    if (mine != other) return mine > other;  // nothing is less than anything
  }
  return left.facts->pid < right.facts->pid;
}

}  // namespace

const watch::Device* find_device(const watch::Snapshot& snapshot, std::string_view key) {
  for (const watch::Device& device : snapshot.devices) {
    const gpu::DeviceIdentity& identity = device.identity;
    if (identity.uuid == key || identity.pci_id == key || fmt::format("{}", identity.index) == key)
      return &device;
  }
  return nullptr;
}

Result<ProcessQuery> parse_process_query(const Query& query, const watch::Snapshot& snapshot) {
  ProcessQuery parsed;
  if (const auto key = parameter(query, "device")) {
    const watch::Device* const device = find_device(snapshot, *key);
    if (device == nullptr)
      return fail(Code::kBadInput,
                  "there is no device '{}'; /api/v1/devices lists them, by index, uuid, pci_id",
                  printable(key->substr(0, 100)));
    parsed.device = device->identity.index;
  }
  if (const auto user = parameter(query, "user")) parsed.user = std::string(*user);
  if (const auto sort = parameter(query, "sort")) {
    const auto found =
        std::ranges::find(kOrders, *sort, &std::pair<std::string_view, SortBy>::first);
    if (found == kOrders.end())
      return fail(Code::kBadInput, "sort: expected memory, pid, user or busy, found '{}'",
                  printable(sort->substr(0, 100)));
    parsed.sort = found->second;
  }
  return parsed;
}

std::vector<const watch::Process*> select(const watch::Snapshot& snapshot,
                                          const ProcessQuery& query) {
  std::vector<const watch::Process*> found;
  for (const watch::Process& process : snapshot.processes) {
    if (query.device && !is_on(process, *query.device)) continue;
    if (query.user && process.facts->user != query.user) continue;
    found.push_back(&process);
  }
  std::ranges::stable_sort(found, [&](const watch::Process* left, const watch::Process* right) {
    return comes_first(*left, *right, query);
  });
  return found;
}

}  // namespace vram::serve
