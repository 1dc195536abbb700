#include "serve/guard.hpp"

#include "history/testing/history_samples.hpp"
#include "serve/http.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
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

Request from_other_machine(std::string path, std::string authorization) {
  Request request;
  request.path = std::move(path);
  request.host = "gpu01.example:9877";
  request.authorization = std::move(authorization);
  request.is_local = false;
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
  Request request = from_other_machine("/metrics", "");
  EXPECT_EQ(gate.status(request), 421);
  EXPECT_EQ(gate.status(from_other_machine("/healthz", "")), 421);
  request.host = "10.1.2.3:9877";
  EXPECT_EQ(gate.status(request), 200);
  gate.guard.host_names = {"gpu01.example"};
  EXPECT_EQ(gate.status(from_other_machine("/metrics", "")), 200);
}

TEST(Guard, WithATokenRequestsFromAfarMayCallItWhatTheyLike) {
  Gate gate(kSecret);
  EXPECT_EQ(gate.status(from_other_machine("/metrics", "Bearer 0123456789abcdef")), 200);
}

TEST(Guard, ATokenIsWantedForAllButTheProbes) {
  Gate gate(kSecret);
  EXPECT_EQ(gate.status(from_other_machine("/healthz", "")), 200);
  EXPECT_EQ(gate.status(from_other_machine("/readyz", "")), 200);
  EXPECT_EQ(gate.status(from_other_machine("/healthz/", "")), 401);
  EXPECT_EQ(gate.status(from_other_machine("/metrics", "")), 401);
  EXPECT_EQ(gate.status(from_other_machine("/", "Bearer 0123456789abcdeF")), 401);
  EXPECT_EQ(gate.status(from_other_machine("/metrics", "Bearer 0123456789abcdef")), 200);
  EXPECT_EQ(gate.status(local("/metrics", "localhost")), 401);
}

// A browser cannot send a token when it opens a page, so the page asks for it.
TEST(Guard, APublicPageNeedsNoTokenButTheRightHost) {
  Gate gate(kSecret);
  gate.guard.is_public = [](const Request& request) { return request.path == "/"; };
  EXPECT_EQ(gate.status(from_other_machine("/", "")), 200);
  EXPECT_EQ(gate.status(from_other_machine("//", "")), 401);
  EXPECT_EQ(gate.status(from_other_machine("/api/v1/status", "")), 401);
  EXPECT_EQ(gate.status(local("/", "rebound.example")), 421);
}

Request change(std::string origin, std::string fetch_site) {
  Request request = local("/api/v1/trim", "localhost:9877");
  request.method = Method::kPost;
  request.content_type = "application/json; charset=utf-8";
  request.authorization = std::string("Bearer ") + kSecret;
  request.origin = std::move(origin);
  request.fetch_site = std::move(fetch_site);
  return request;
}

TEST(Guard, ChangesAreForAuthenticatedClientsAlone) {
  Gate open("");
  EXPECT_EQ(open.status(change("", "")), 403) << "everybody could";
  Gate gate(kSecret);
  EXPECT_EQ(gate.status(change("", "")), 200);
  Request request = change("", "");
  request.authorization = "";
  EXPECT_EQ(gate.status(request), 401);
  gate.guard.is_public = [](const Request&) { return true; };
  EXPECT_EQ(gate.status(request), 401) << "public pages are for reading";
}

TEST(Guard, AServerWithoutChangesAnswersForItself) {
  Gate gate("");
  gate.guard.has_changes = false;
  EXPECT_EQ(gate.status(change("https://evil.example", "cross-site")), 200) << "of the inner one";
}

// A browser adds a password that it knows to the requests of any page.
TEST(Guard, ChangesFromPagesOfOtherSitesAreRefused) {
  Gate gate(kSecret);
  EXPECT_EQ(gate.status(change("http://localhost:9877", "same-origin")), 200);
  EXPECT_EQ(gate.status(change("https://hub.example", "same-origin")), 200) << "through a proxy";
  EXPECT_EQ(gate.status(change("http://localhost:9877", "")), 200);
  for (const char* const site : {"cross-site", "same-site", "none", "x"})
    EXPECT_EQ(gate.status(change("http://localhost:9877", site)), 403) << site;
  for (const char* const origin :
       {"null", "https://evil.example", "http://localhost:9878",
        "http://localhost:9877.evil.example", "localhost:9877", "http://"})
    EXPECT_EQ(gate.status(change(origin, "")), 403) << origin;
  gate.guard.host_names = {"hub.example"};
  EXPECT_EQ(gate.status(change("https://hub.example", "")), 200);
}

TEST(Guard, ChangesAreJson) {
  Gate gate(kSecret);
  for (const char* const type : {"", "text/plain", "application/x-www-form-urlencoded",
                                 "multipart/form-data", "application/jsonx"}) {
    Request request = change("", "");
    request.content_type = type;
    EXPECT_EQ(gate.status(request), 415) << type;
  }
}

class UserGuard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Bcrypt::library()) GTEST_SKIP() << Bcrypt::library().error().message;
    const std::string hash =
        Bcrypt::library()->hash("open sesame", "$2b$04$abcdefghijklmnopqrstuu");
    std::ofstream(folder_.file("web.yml"))
        << "basic_auth_users: {}\nhttp_server_config:\n  headers:\n    X-Frame-Options: deny\n";
    std::ofstream(folder_.file("users.yml")) << "basic_auth_users:\n  alice: " << hash << "\n";
  }
  history::testing::Folder folder_;
};

TEST_F(UserGuard, APasswordIsWantedForAllButTheProbes) {
  Gate gate("");
  gate.guard.web = WebAccess::open(folder_.file("users.yml")).value();
  EXPECT_EQ(gate.status(from_other_machine("/healthz", "")), 200);
  EXPECT_EQ(gate.status(from_other_machine("/metrics", "")), 401);
  Request request = from_other_machine("/metrics", "Basic YWxpY2U6b3BlbiBzZXNhbWU=");
  EXPECT_TRUE(gate.guard.needs_password_check(request));
  EXPECT_EQ(gate.status(request), 401) << "not checked";
  request.password_is_right = gate.guard.check_password(request);
  EXPECT_EQ(gate.status(request), 200);
  request.password_is_right = std::nullopt;
  EXPECT_FALSE(gate.guard.needs_password_check(request)) << "it is known";
  EXPECT_EQ(gate.status(request), 200);
  request.password_is_right = false;
  EXPECT_EQ(gate.status(request), 401);
  Request misdirected = local("/metrics", "rebound.example");
  misdirected.authorization = "Basic YWxpY2U6eA==";
  EXPECT_FALSE(gate.guard.needs_password_check(misdirected)) << "pages can't make it work";
  gate.guard.is_public = [](const Request& each) { return each.path == "/"; };
  EXPECT_EQ(gate.status(from_other_machine("/", "")), 401) << "the browser asks for a password";
  Request forged = change("https://evil.example", "cross-site");
  forged.authorization = "Basic YWxpY2U6eA==";
  EXPECT_FALSE(gate.guard.needs_password_check(forged)) << "pages can't make it work";
}

// So that no work is begun for others.
TEST_F(UserGuard, ItKnowsBeforehandWhoIsLetIn) {
  Gate gate(kSecret);
  gate.guard.web = WebAccess::open(folder_.file("users.yml")).value();
  EXPECT_TRUE(gate.guard.accepts_authorization(from_other_machine("/healthz", "")));
  EXPECT_TRUE(gate.guard.accepts_authorization(
      from_other_machine("/metrics", std::string("Bearer ") + kSecret)));
  EXPECT_FALSE(gate.guard.accepts_authorization(from_other_machine("/metrics", "")));
  EXPECT_FALSE(
      gate.guard.accepts_authorization(from_other_machine("/metrics", "Bearer 0123456789abcdeF")));
  Request request = from_other_machine("/metrics", "Basic YWxpY2U6b3BlbiBzZXNhbWU=");
  EXPECT_FALSE(gate.guard.accepts_authorization(request)) << "not checked";
  request.password_is_right = true;
  EXPECT_TRUE(gate.guard.accepts_authorization(request));
  EXPECT_FALSE(gate.guard.accepts_authorization(local("/healthz", "rebound.example")));
  EXPECT_TRUE(gate.refusals.empty());
}

TEST_F(UserGuard, ATokenWillDoAsWell) {
  Gate gate(kSecret);
  gate.guard.web = WebAccess::open(folder_.file("users.yml")).value();
  const Request request = from_other_machine("/metrics", std::string("Bearer ") + kSecret);
  EXPECT_FALSE(gate.guard.needs_password_check(request));
  EXPECT_EQ(gate.status(request), 200);
  const Response refused = gate.guard(from_other_machine("/metrics", "Bearer 0123456789abcdeF"));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.size(), 2U) << "both ways are offered";
}

TEST_F(UserGuard, HeadersComeWithEachAnswer) {
  Gate gate("");
  gate.guard.web = WebAccess::open(folder_.file("web.yml")).value();
  const Response response = gate.guard(local("/metrics", "localhost"));
  EXPECT_EQ(response.status, 200) << "no users, no password";
  ASSERT_EQ(response.headers.size(), 1U);
  const std::pair<std::string, std::string> header("X-Frame-Options", "deny");
  EXPECT_EQ(response.headers[0], header);
  const Response refused = gate.guard(local("/metrics", "rebound.example"));
  EXPECT_EQ(refused.status, 421);
  EXPECT_THAT(refused.headers, ::testing::Contains(header));
}

TEST_F(UserGuard, ReloadingNeverLetsMoreIn) {
  const auto web = WebAccess::open(folder_.file("users.yml")).value();
  const auto before = web->now();
  std::ofstream(folder_.file("users.yml")) << "basic_auth_users: {}\n";
  const auto weaker = web->reload();
  ASSERT_FALSE(weaker);
  EXPECT_NE(weaker.error().message.find("takes a restart"), std::string::npos);
  std::ofstream(folder_.file("users.yml")) << "basic_auth_users: [\n";
  EXPECT_FALSE(web->reload());
  EXPECT_EQ(web->now(), before);
}

TEST_F(UserGuard, ReloadingTheSameFilesForgetsNoPassword) {
  const auto web = WebAccess::open(folder_.file("users.yml")).value();
  const std::string shown = "Basic YWxpY2U6b3BlbiBzZXNhbWU=";
  EXPECT_TRUE(web->now()->users->check(shown));
  EXPECT_FALSE(web->reload().value());
  EXPECT_EQ(web->now()->users->accepts_authorization(shown), true);
  std::ofstream(folder_.file("users.yml"), std::ios::app) << "  # another text\n";
  EXPECT_TRUE(web->reload().value());
  EXPECT_EQ(web->now()->users->accepts_authorization(shown), std::nullopt);
}

TEST(Guard, ARefusalSaysHowToAskAndNotTheToken) {
  Gate gate(kSecret);
  const Response response = gate.guard(from_other_machine("/metrics", "Bearer 0123456789abcdeF"));
  EXPECT_EQ(response.headers.at(0).first, "WWW-Authenticate");
  EXPECT_EQ(response.body->text().find("0123456789"), std::string::npos);
  ASSERT_EQ(gate.refusals.size(), 1U);
  EXPECT_EQ(gate.refusals[0], "shows a wrong token or password");
}

}  // namespace
}  // namespace vram::serve
