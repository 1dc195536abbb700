#include "serve/api.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "serve/document_cache.hpp"
#include "serve/errors.hpp"
#include "serve/openapi.hpp"
#include "serve/processes.hpp"
#include "show/status_json.hpp"
#include "show/status_objects.hpp"

#include <fmt/format.h>

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

// An answer that is one document of the look, whoever asks.
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
  return {"/readyz",
          {},
          "200 once there has been a look at the GPUs, until then 503",
          [feed](auto&&...) {
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

std::vector<Route> alert_routes(const std::shared_ptr<const AlertEngine>& alert_engine) {
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

}  // namespace vram::serve
