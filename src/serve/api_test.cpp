#include "serve/api.hpp"

#include "alerts/rules/rule.hpp"
#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "base/time.hpp"
#include "serve/openapi.hpp"
#include "show/live/status_export.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace vram::serve {
namespace {

using watch::Sampled;

// A server's picture, with a clock of the test's own.
struct Machine {
  Machine() {
    sampled->snapshot = show::testing::sample_snapshot();
    sampled->number = 1;
    sampled->begin_ns = 100 * kSecondNs;
    sampled->sample_duration_ns = 2'000'000;
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  SampleFeed feed() {
    return {.latest = [this] { return has_sampled ? sampled : nullptr; },
            .overdue_ns = [this] { return overdue_ns; },
            .now_ns = [this] { return now_ns; },
            .period = std::chrono::seconds(1)};
  }

  std::shared_ptr<Sampled> sampled = std::make_shared<Sampled>();
  bool has_sampled = true;
  uint64_t overdue_ns = 0;
  uint64_t now_ns = 100 * kSecondNs + 250'000'000;
};

class Api : public ::testing::Test {
 protected:
  Response get(std::string path, Query query = {}, Method method = Method::kGet) {
    Request request;
    request.path = std::move(path);
    request.query = std::move(query);
    request.method = method;
    return router_(request);
  }
  Json json(std::string path, Query query = {}) {
    return Json::parse(get(std::move(path), std::move(query)).body->text());
  }
  std::vector<uint64_t> pids(Query query) {
    std::vector<uint64_t> found;
    const Json document = json("/api/v1/processes", std::move(query));
    for (const Json& process : document["processes"]) found.push_back(process["pid"]);
    return found;
  }

  Machine machine_;
  Router router_{live_routes(machine_.feed())};
};

TEST_F(Api, IsFreshAfterALook) {
  EXPECT_EQ(get("/healthz").status, 200);
  const Json health = json("/healthz");
  EXPECT_EQ(health["status"], "ok");
  EXPECT_EQ(health["age_ns"], 250'000'000);
  EXPECT_TRUE(health["why"].is_null());
}

TEST_F(Api, IsStaleAfterThreePeriods) {
  machine_.now_ns = 103 * kSecondNs;
  EXPECT_EQ(get("/healthz").status, 200);
  machine_.now_ns += 1;
  EXPECT_EQ(get("/healthz").status, 503);
  EXPECT_EQ(json("/healthz")["status"], "stale");
  EXPECT_EQ(get("/readyz").status, 200);
}

TEST_F(Api, SaysThatADriverHangs) {
  machine_.now_ns = 130 * kSecondNs;
  machine_.overdue_ns = 28 * kSecondNs;
  const std::string why = json("/healthz")["why"];
  EXPECT_NE(why.find("30 s ago"), std::string::npos) << why;
  EXPECT_NE(why.find("28 s late: a call of the driver hangs"), std::string::npos) << why;
}

TEST_F(Api, IsNotReadyBeforeTheFirstLook) {
  machine_.has_sampled = false;
  EXPECT_EQ(get("/healthz").status, 503);
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(json("/readyz")["status"], "starting");
  for (const char* path :
       {"/api/v1/status", "/api/v1/devices", "/api/v1/devices/0", "/api/v1/processes"}) {
    EXPECT_EQ(get(path).status, 503) << path;
    EXPECT_EQ(json(path)["schema"], "vram.error/1");
  }
}

TEST_F(Api, StatusIsThatOfTheCommandLine) {
  const Response response = get("/api/v1/status");
  EXPECT_EQ(response.body->text(), show::status_json(machine_.sampled->snapshot));
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers[0],
            (std::pair<std::string, std::string>("X-Vram-Age-Seconds", "0.250")));
}

TEST_F(Api, ADocumentIsMadeOncePerLook) {
  const auto first = get("/api/v1/status").body;
  EXPECT_EQ(get("/api/v1/status").body, first);
  machine_.sampled->number = 2;
  EXPECT_NE(get("/api/v1/status").body, first);
}

TEST_F(Api, DevicesAreThoseOfTheStatus) {
  const Json status = json("/api/v1/status");
  EXPECT_EQ(json("/api/v1/devices")["devices"], status["devices"]);
  EXPECT_EQ(json("/api/v1/devices/7")["device"], status["devices"][7]);
}

TEST_F(Api, ADeviceIsFoundByEachOfItsNames) {
  const Json by_index = json("/api/v1/devices/3");
  EXPECT_EQ(json("/api/v1/devices/GPU-1b5fa1a2-0000-4000-8000-000000000003"), by_index);
  EXPECT_EQ(json("/api/v1/devices/0000:1c:00.0"), by_index);
  for (const char* key : {"8", "03", "GPU-", "-1", "../0"})
    EXPECT_EQ(get(std::string("/api/v1/devices/") + key).status, 404) << key;
  EXPECT_EQ(get("/api/v1/devices/").status, 404);
}

TEST_F(Api, ADeviceComesWithItsProcessesAlone) {
  const Json document = json("/api/v1/devices/7");
  for (const Json& process : document["processes"]) {
    const Json& uses = process["uses"];
    EXPECT_TRUE(
        std::any_of(uses.begin(), uses.end(), [](const Json& use) { return use["device"] == 7; }));
  }
  EXPECT_EQ(document["processes"].size(), 2U);
}

TEST_F(Api, ProcessesComeByMemoryAndUnknownOnesLast) {
  auto& processes = machine_.sampled->snapshot.processes;
  processes.clear();
  const auto add = [&](uint32_t pid, std::optional<uint64_t> used, std::optional<uint32_t> busy,
                       std::optional<std::string> user) {
    watch::Process process;
    watch::ProcessFacts& facts = process.facts.edit();
    facts.pid = pid;
    facts.user = std::move(user);
    watch::Use use;
    use.device = pid % 2;
    use.process.used_bytes = used;
    use.process.busy_percent = busy;
    process.uses = {use};
    processes.push_back(process);
  };
  add(10, 5, 1, "bob");
  add(11, std::nullopt, 90, "ann");
  add(12, 9, std::nullopt, std::nullopt);
  add(13, 5, 50, "ann");
  EXPECT_EQ(pids({}), (std::vector<uint64_t>{12, 10, 13, 11}));
  EXPECT_EQ(pids({{"sort", "pid"}}), (std::vector<uint64_t>{10, 11, 12, 13}));
  EXPECT_EQ(pids({{"sort", "busy"}}), (std::vector<uint64_t>{11, 13, 10, 12}));
  EXPECT_EQ(pids({{"sort", "user"}}), (std::vector<uint64_t>{11, 13, 10, 12}));
  EXPECT_EQ(pids({{"user", "ann"}}), (std::vector<uint64_t>{13, 11}));
  EXPECT_EQ(pids({{"device", "0"}}), (std::vector<uint64_t>{12, 10}));
  EXPECT_EQ(pids({{"device", "1"}, {"user", "bob"}}), (std::vector<uint64_t>{}));
}

TEST_F(Api, WrongParametersAreRefusedByName) {
  EXPECT_EQ(get("/api/v1/processes", {{"sort", "size"}}).status, 400);
  EXPECT_EQ(get("/api/v1/processes", {{"device", "99"}}).status, 400);
  EXPECT_EQ(get("/api/v1/processes", {{"pid", "1"}}).status, 400);
  const std::string why = json("/healthz", {{"\x1b[2J", ""}})["error"]["message"];
  EXPECT_NE(why.find("\\x1b[2J"), std::string::npos);
}

TEST_F(Api, OtherPathsAndMethodsAreRefused) {
  EXPECT_EQ(get("/api/v2/status").status, 404);
  EXPECT_EQ(get("/api/v1/status/").status, 404);
  EXPECT_EQ(get("").status, 404);
  const Response response = get("/api/v1/status", {}, Method::kOther);
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.headers.at(0), (std::pair<std::string, std::string>("Allow", "GET, HEAD")));
  EXPECT_EQ(get("/nowhere", {}, Method::kOther).status, 404);
  EXPECT_EQ(get("/api/v1/status", {}, Method::kHead).status, 200);
}

TEST_F(Api, EveryFieldIsDocumented) {
  using vram::testing::expect_documented;
  expect_documented("vram.devices/1", json("/api/v1/devices"), {{"devices", ""}});
  expect_documented("vram.device/1", json("/api/v1/devices/0"), {{"device", ""}});
  expect_documented("vram.processes/1", json("/api/v1/processes"), {{"processes", ""}});
  expect_documented("vram.health/1", json("/healthz"), {{"health", ""}});
  expect_documented("vram.error/1", json("/nowhere"), {{"refusal", ""}, {"error", "/error"}});
}

TEST(OpenApi, DescribesEveryRouteAndItsParameters) {
  Machine machine;
  std::vector<Route> routes = live_routes(machine.feed());
  routes.push_back(openapi_route());
  const Json document = Json::parse(routes.back().answer({}, "").body->text());
  EXPECT_EQ(document["openapi"], "3.1.0");
  for (const Route& route : routes) {
    ASSERT_TRUE(document["paths"].contains(route.path)) << route.path;
    std::vector<std::string> described;
    for (const Json& parameter :
         document["paths"][route.path]["get"].value("parameters", Json::array())) {
      if (parameter["in"] == "query") described.push_back(parameter["name"]);
    }
    EXPECT_EQ(described, route.parameters) << route.path;
  }
}

Json schema_of(const std::string& name) {
  return Json::parse(openapi_json())["components"]["schemas"][name];
}

TEST(OpenApi, SchemasAreOfTheTableOfFigures) {
  const Json device = schema_of("Device");
  Json answer = show::json_device(watch::Device());
  for (const auto& field : answer.items())
    EXPECT_TRUE(device["properties"].contains(field.key())) << field.key();
  EXPECT_EQ(device["properties"].size(), answer.size());
  EXPECT_EQ(device["properties"]["core_mhz"],
            Json::parse(R"({"type": ["integer", "null"], "minimum": 0})"));
  EXPECT_EQ(device["properties"]["bar1"],
            Json::parse(R"({"oneOf": [{"$ref": "#/components/schemas/Memory"},
                                      {"type": "null"}]})"));
  EXPECT_EQ(
      device["properties"]["mig_instances"],
      Json::parse(R"({"type": "array", "items": {"$ref": "#/components/schemas/Instance"}})"));
  EXPECT_EQ(schema_of("Rows")["properties"]["has_failed"], Json::parse(R"({"type": "boolean"})"));
  EXPECT_EQ(schema_of("Fault")["required"],
            Json::parse(R"(["xid", "count", "last_time_unix_ns"])"));
}

TEST(AlertRoutes, AnswerWithBothDocuments) {
  const auto alert_engine = alerts::AlertEngine::open({}).value();
  const Router router(alert_routes(alert_engine));
  Request request;
  request.path = "/api/v1/alerts";
  EXPECT_EQ(router(request).body->text(), alert_engine->alerts_json());
  request.path = "/api/v1/rules";
  EXPECT_EQ(router(request).body->text(), alert_engine->rules_json());
  EXPECT_EQ(Json::parse(alert_engine->rules_json())["schema"], "vram.rules/1");
}

TEST(Dashboard, IsAPageThatOtherSitesCannotFrame) {
  const Route route = dashboard_route("<!doctype html>");
  EXPECT_EQ(route.path, "/");
  const Response response = route.answer({}, "");
  EXPECT_EQ(response.body->text(), "<!doctype html>");
  EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(response.headers.front(), std::pair(std::string("Content-Security-Policy"),
                                                std::string("frame-ancestors 'self'")));
}

TEST(IndexPage, ListsTheRoutesAndLinksThoseThatCanBe) {
  Machine machine;
  const std::string page =
      index_page(live_routes(machine.feed()), "<b>gpu&01").answer({}, "").body->text();
  EXPECT_NE(page.find("<a href=\"healthz\">/healthz</a>"), std::string::npos) << "relative";
  EXPECT_NE(page.find("/api/v1/devices/{key}"), std::string::npos);
  EXPECT_EQ(page.find("href=\"/api/v1/devices/{key}\""), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;gpu&amp;01"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

}  // namespace
}  // namespace vram::serve
