#include "serve/http_server.hpp"

#include "base/testing/waiting.hpp"
#include "serve/http.hpp"
#include "serve/testing/test_server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace vram::serve {
namespace {

using std::chrono::milliseconds;
using testing::Client;

using testing::echo;
using testing::kClose;
using testing::Server;

TEST(HttpServer, AnswersWithWhatEveryAnswerSays) {
  Server server;
  const std::string answer =
      server.send_and_read(std::string("GET /a%20b?c=d HTTP/1.1\r\n") + kClose);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n/a b|1|localhost|true")) << answer;
  for (const char* line : {"Content-Length: 21", "Content-Type: text/plain", "Connection: close",
                           "X-Content-Type-Options: nosniff", "Cache-Control: no-store"})
    EXPECT_NE(answer.find(std::string("\r\n") + line + "\r\n"), std::string::npos) << line;
  EXPECT_EQ(answer.find("\r\nServer:"), std::string::npos);
  EXPECT_EQ(answer.find("Access-Control"), std::string::npos);
}

TEST(HttpServer, AHeadHasTheHeadersOfItsGetAndNoBody) {
  Server server;
  const std::string answer = server.send_and_read(std::string("HEAD /abc HTTP/1.1\r\n") + kClose);
  EXPECT_NE(answer.find("\r\nContent-Length: 21\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

TEST(HttpServer, AnswersAllThatWasSentAheadInOrder) {
  Server server;
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += fmt::format("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", i);
  const std::string answers = server.send_and_read(requests + "GET /end HTTP/1.1\r\n" + kClose);
  size_t at = 0;
  for (int i = 0; i < 500; ++i) {
    at = answers.find(fmt::format("\r\n\r\n/{}|", i), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_NE(answers.find("/end|", at), std::string::npos);
}

TEST(HttpServer, ReadsBodiesOfGetAndForgetsThem) {
  Server server;
  EXPECT_EQ(
      server.status(std::string("GET / HTTP/1.1\r\nContent-Length: 5\r\n") + kClose + "hello"),
      200);
  EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n") + kClose +
                          "5\r\nhello\r\n0\r\n\r\n"),
            200);
}

// Those of a POST are kept, if they are small.
TEST(HttpServer, ReadsTheBodyOfAPost) {
  Server server([](const Request& request) {
    return json_response(request.method == Method::kPost ? request.body + request.content_type +
                                                               request.origin + request.fetch_site
                                                         : "no body: " + request.body);
  });
  const std::string head =
      "POST / HTTP/1.1\r\nContent-Type: a/b\r\nOrigin: o\r\nsec-fetch-site: s\r\n";
  EXPECT_TRUE(server.send_and_read(head + "Content-Length: 5\r\n" + kClose + "hello")
                  .ends_with("helloa/bos"));
  EXPECT_TRUE(server
                  .send_and_read(head + "Transfer-Encoding: chunked\r\n" + kClose +
                                 "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
                  .ends_with("helloa/bos"));
  EXPECT_TRUE(
      server
          .send_and_read(std::string("GET / HTTP/1.1\r\nContent-Length: 5\r\n") + kClose + "hello")
          .ends_with("no body: "));
  for (const size_t bytes : {4097, 65537}) {
    const std::string length = "Content-Length: " + std::to_string(bytes) + "\r\n";
    EXPECT_EQ(server.status(head + length + kClose + std::string(bytes, 'x')), 413) << bytes;
  }
  EXPECT_EQ(server.status(head + "Content-Length: 4096\r\n" + kClose + std::string(4096, 'x')),
            200);
}

TEST(HttpServer, SpeaksHttp10) {
  Server server;
  const std::string answer = server.send_and_read("GET /x HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("/x|0||true")) << answer;
}

TEST(HttpServer, SaysWhatIsWrongWithARequest) {
  Server server;
  const std::string close = kClose;
  const std::string much(9000, 'a');
  const std::pair<std::string, int> cases[] = {
      {"nonsense\r\n\r\n", 400},
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls?\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\n" + close, 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\n" + close, 400},
      {"GET localhost HTTP/1.1\r\n" + close, 400},
      {"GET /" + much + " HTTP/1.1\r\n" + close, 414},
      {"GET /" + std::string(5000, 'a') + " HTTP/1.1\r\n" + close, 414},
      {"GET / HTTP/1.1\r\nX: " + much + "\r\n" + close, 431},
      {"GET / HTTP/1.1\r\nContent-Length: 65537\r\n" + close, 413},
      {"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n" + close, 400},
      {"GET / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n" + close, 400},
      {"BREW / HTTP/1.1\r\n" + close, 501},
      {"GET / HTTP/1.1\r\nBad Header: x\r\n" + close, 400}};
  for (const auto& [bytes, status] : cases) {
    const std::string answer = server.send_and_read(bytes);
    EXPECT_EQ(testing::status_of(answer), status) << bytes.substr(0, 60);
    EXPECT_NE(answer.find("\"vram.error/1\""), std::string::npos);
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
}

TEST(HttpServer, ABodyInAnUnknownEncodingEndsTheConnection) {
  Server server;
  const std::string next = std::string("GET /smuggled HTTP/1.1\r\n") + kClose;
  for (const char* encoding : {"Transfer-Encoding: xchunked", "Transfer-Encoding: gzip, chunked",
                               "Transfer-Encoding: identity", "Transfer-Encoding: \"chunked\"",
                               "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"}) {
    const std::string answer = server.send_and_read(
        fmt::format("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n\r\n", encoding) + next);
    EXPECT_EQ(testing::status_of(answer), 400) << encoding;
    EXPECT_EQ(answer.find("smuggled"), std::string::npos) << encoding << ": " << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos) << encoding;
  }
  EXPECT_EQ(server.status("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(server.status("GET / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n" + std::string(kClose) +
                          "0\r\n\r\n"),
            200);
}

// A proxy has seen no such header when it let the request pass.
TEST(HttpServer, WhatComesBehindABodyIsNoHeader) {
  Server server;
  const std::string answer =
      server.send_and_read(std::string("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n") +
                           kClose + "5\r\nhello\r\n0\r\nHost: elsewhere\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n/|0|localhost|true")) << answer;
}

TEST(HttpServer, AnErrorBehindAHeadIsNoAnswerToAHead) {
  Server server;
  for (const char* next :
       {"nonsense\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x\r\n\r\n"}) {
    const std::string answer =
        server.send_and_read(std::string("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n") + next);
    EXPECT_TRUE(answer.ends_with("}\n")) << answer;
  }
  const std::string answer =
      server.send_and_read("HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST(HttpServer, ARequestThatDoesNotEndGets408) {
  ServerLimits limits;
  limits.read = milliseconds(50);
  Server server(echo, limits);
  EXPECT_EQ(server.status("GET / HTTP/1.1\r\nHos"), 408);
  EXPECT_EQ(server.status("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234"), 408);
}

TEST(HttpServer, AnIdleConnectionIsClosedWithoutAWord) {
  ServerLimits limits;
  limits.idle = milliseconds(50);
  Server server(echo, limits);
  EXPECT_EQ(server.send_and_read(""), "");
  EXPECT_EQ(server.incidents(), "");
}

TEST(HttpServer, WhoDoesNotReadIsClosed) {
  ServerLimits limits;
  limits.write = milliseconds(100);
  const auto big = std::make_shared<Body>(std::string(64 << 20, 'x'));
  Server server(
      [&](const Request&) {
        return Response{.status = 200, .content_type = "text/plain", .body = big, .headers = {}};
      },
      limits);
  Client client(server.port());
  client.send(std::string("GET / HTTP/1.1\r\n") + kClose);
  ASSERT_TRUE(eventually([&] { return !server.incidents().empty(); }))
      << "the client that does not read was not noticed";
  EXPECT_NE(server.incidents().find("does not read its answer"), std::string::npos);
  EXPECT_LT(client.read_to_end().size(), big->text().size());
}

TEST(HttpServer, BeyondItsLimitItSays503) {
  ServerLimits limits;
  limits.connections = 2;
  limits.timeout = std::chrono::hours(1);
  Server server(echo, limits);
  Client first(server.port());
  Client second(server.port());
  // Both have been taken once they are answered.
  for (Client* client : {&first, &second}) {
    client->send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(testing::status_of(client->read_some()), 200);
  }
  EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\n") + kClose), 503);
}

TEST(HttpServer, WhoKeepsItWaitingMakesRoom) {
  ServerLimits limits;
  limits.connections = 2;
  limits.timeout = milliseconds(0);
  Server server(echo, limits);
  Client slow(server.port());
  slow.send("GET / HT");
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\n") + kClose), 200);
  Client other(server.port());
  EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\n") + kClose), 200);
  EXPECT_EQ(slow.read_to_end(), "");
}

TEST(HttpServer, ASlowAnswerHoldsUpNobodyElse) {
  std::promise<void> may_go;
  const std::shared_future<void> go = may_go.get_future().share();
  Server server(
      [&](const Request& request) {
        if (request.path == "/slow") (void)go.wait_for(kWaitLimit);
        return echo(request);
      },
      {}, [](const Request& request) { return request.path == "/slow"; });
  Client slow(server.port());
  slow.send(std::string("GET /slow HTTP/1.1\r\n") + kClose);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(server.status(std::string("GET /fast HTTP/1.1\r\n") + kClose), 200);
  may_go.set_value();
  EXPECT_EQ(testing::status_of(slow.read_to_end()), 200);
}

TEST(HttpServer, TooManySlowQuestionsAre503) {
  std::promise<void> may_go;
  const std::shared_future<void> go = may_go.get_future().share();
  ServerLimits limits;
  limits.slow_requests = 1;
  std::atomic<int> begun = 0;
  Server server(
      [&](const Request& request) {
        ++begun;
        (void)go.wait_for(kWaitLimit);
        return echo(request);
      },
      limits, [](const Request&) { return true; });
  Client slow(server.port());
  slow.send(std::string("GET / HTTP/1.1\r\n") + kClose);
  EXPECT_TRUE(eventually([&] { return begun != 0; })) << "the slow request was not handled";
  EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\n") + kClose), 503);
  may_go.set_value();
  EXPECT_EQ(testing::status_of(slow.read_to_end()), 200);
}

TEST(HttpServer, AnExceptionIsOneAnswer500) {
  Server server([](const Request&) -> Response { throw std::bad_alloc(); });
  EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\n") + kClose), 500);
  EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\n") + kClose), 500);
}

TEST(HttpServer, PacksForWhoAsksForIt) {
  const auto big = std::make_shared<Body>(std::string(100'000, 'x'));
  Server server([&](const Request&) {
    return Response{.status = 200, .content_type = "text/plain", .body = big, .headers = {}};
  });
  const std::string packed =
      server.send_and_read(std::string("GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n") + kClose);
  EXPECT_NE(packed.find("Content-Encoding: gzip"), std::string::npos);
  EXPECT_TRUE(packed.ends_with(big->gzipped()));
  const std::string plain = server.send_and_read(std::string("GET / HTTP/1.1\r\n") + kClose);
  EXPECT_EQ(plain.find("Content-Encoding"), std::string::npos);
  EXPECT_TRUE(plain.ends_with(big->text()));
}

TEST(HttpServer, SaysWhichPortIsTaken) {
  Server server;
  const std::vector<Address> taken = {{.ip = "127.0.0.1", .port = server.port()}};
  const auto second = HttpServer::open(taken);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kIo);
  EXPECT_NE(second.error().message.find(taken[0].text() + " is taken"), std::string::npos);
}

TEST(HttpServer, AnAddressOfAnotherMachineIsAnErrorUnlessItMayBeMissing) {
  std::vector<Address> addresses = {{.ip = "192.0.2.1"}, {.ip = "127.0.0.1"}};
  const auto refused = HttpServer::open(addresses);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("192.0.2.1:0"), std::string::npos);
  addresses[0].may_be_missing = true;
  const auto opened = HttpServer::open(addresses);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ((*opened)->addresses().size(), 1U);
}

TEST(HttpServer, EndsBesideClientsThatWait) {
  auto server = std::make_unique<Server>();
  Client idle(server->port());
  Client halfway(server->port());
  halfway.send("GET / HTTP/1.1\r\nHo");
  Client answered(server->port());
  answered.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(testing::status_of(answered.read_some()), 200);
  server.reset();
  EXPECT_EQ(halfway.read_to_end(), "");
}

}  // namespace
}  // namespace vram::serve
