#include "serve/guard.hpp"

#include "serve/errors.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vram::serve {
namespace {

constexpr const char* kSecret = "0123456789abcdef";

struct Gate {
  explicit Gate(const std::string& secret)
      : guard{.inner = [](const Request&) { return json_response("{}"); },
              .token = std::make_shared<Token>(secret),
              .refused = [this](const Request&,
                                std::string_view why) { refusals.emplace_back(why); }} {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  int status(const Request& request) { return guard(request).status; }

  std::vector<std::string> refusals;
  Guard guard;
};

Request local(std::string path, std::string host) {
  Request request;
  request.path = std::move(path);
  request.host = std::move(host);
  return request;
}

Request from_afar(std::string path, std::string authorization) {
  Request request;
  request.path = std::move(path);
  request.host = "gpu01.example:9877";
  request.authorization = std::move(authorization);
  request.came_locally = false;
  return request;
}

TEST(Guard, LocalRequestsMustNameThisMachine) {
  Gate gate("");
  EXPECT_EQ(gate.status(local("/metrics", "localhost:9877")), 200);
  EXPECT_EQ(gate.status(local("/metrics", "rebound.example:9877")), 421);
  EXPECT_EQ(gate.status(local("/healthz", "rebound.example:9877")), 421);
  EXPECT_EQ(gate.status(local("/metrics", "")), 421);
  EXPECT_EQ(gate.refusals.size(), 3U);
}

// A port that a container publishes is reached by a page in a browser, and comes from the bridge.
TEST(Guard, WithoutATokenRequestsFromAfarMustNameItToo) {
  Gate gate("");
  Request request = from_afar("/metrics", "");
  EXPECT_EQ(gate.status(request), 421);
  EXPECT_EQ(gate.status(from_afar("/healthz", "")), 421);
  request.host = "10.1.2.3:9877";
  EXPECT_EQ(gate.status(request), 200);
  gate.guard.host_names = {"gpu01.example"};
  EXPECT_EQ(gate.status(from_afar("/metrics", "")), 200);
}

TEST(Guard, WithATokenRequestsFromAfarMayCallItWhatTheyLike) {
  Gate gate(kSecret);
  EXPECT_EQ(gate.status(from_afar("/metrics", "Bearer 0123456789abcdef")), 200);
}

TEST(Guard, ATokenIsWantedForAllButTheProbes) {
  Gate gate(kSecret);
  EXPECT_EQ(gate.status(from_afar("/healthz", "")), 200);
  EXPECT_EQ(gate.status(from_afar("/readyz", "")), 200);
  EXPECT_EQ(gate.status(from_afar("/healthz/", "")), 401);
  EXPECT_EQ(gate.status(from_afar("/metrics", "")), 401);
  EXPECT_EQ(gate.status(from_afar("/", "Bearer 0123456789abcdeF")), 401);
  EXPECT_EQ(gate.status(from_afar("/metrics", "Bearer 0123456789abcdef")), 200);
  EXPECT_EQ(gate.status(local("/metrics", "localhost")), 401);
}

TEST(Guard, ARefusalSaysHowToAskAndNotTheToken) {
  Gate gate(kSecret);
  const Response response = gate.guard(from_afar("/metrics", "Bearer 0123456789abcdeF"));
  EXPECT_EQ(response.headers.at(0).first, "WWW-Authenticate");
  EXPECT_EQ(response.body->text().find("0123456789"), std::string::npos);
  ASSERT_EQ(gate.refusals.size(), 1U);
  EXPECT_EQ(gate.refusals[0], "shows a wrong token");
}

}  // namespace
}  // namespace vram::serve
