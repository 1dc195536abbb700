// The server while it has much to do, and at its end.
#include "base/testing/waiting.hpp"
#include "serve/testing/test_server.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vram::serve {
namespace {

using std::chrono::milliseconds;
using testing::Client;
using testing::echo;
using testing::kClose;
using testing::Server;

// A server whose thread can be made busy, as on a machine that has much to do.
class BusyServer {
 public:
  explicit BusyServer(ServerLimits limits)
      : server_(
            [this](const Request& request) {
              if (request.path == "/busy") {
                is_busy_ = true;
                (void)go_.get_future().wait_for(kWaitLimit);
              }
              return echo(request);
            },
            limits) {}

  Server& operator*() { return server_; }
  // Until this is over, nothing else is done.
  template <typename Work>
  void while_busy(Work work) {
    Client client(server_.port());
    client.send(std::string("GET /busy HTTP/1.1\r\n") + kClose);
    EXPECT_TRUE(eventually([&] { return is_busy_.load(); }));
    work();
    go_.set_value();
    EXPECT_EQ(testing::status_of(client.read_to_end()), 200);
  }

 private:
  std::promise<void> go_;
  std::atomic<bool> is_busy_ = false;
  Server server_;
};

// At that moment some of it has been read and waits to be handled.
TEST(BusyHttpServer, ATimeLimitHoldsWhereMoreHasComeWhenItIsOver) {
  ServerLimits limits;
  limits.read = milliseconds(300);
  BusyServer server(limits);
  Client client((*server).port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n");
  server.while_busy([&] {
    client.send(std::string(60'000, 'x'));
    std::this_thread::sleep_for(milliseconds(500));
  });
  EXPECT_EQ(testing::status_of(client.read_to_end()), 408);
}

TEST(BusyHttpServer, WhoGoesOnSendingBehindTheLastAnswerIsClosed) {
  ServerLimits limits;
  limits.connections = 2;
  limits.timeout = std::chrono::hours(1);
  BusyServer server(limits);
  Client client((*server).port());
  client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n");
  EXPECT_EQ(testing::status_of(client.read_some()), 200);
  server.while_busy([&] {
    client.send(std::string(60'000, 'x'));
    std::this_thread::sleep_for(milliseconds(1500));  // the server reads on for a second
  });
  Client other((*server).port());
  other.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(testing::status_of(other.read_some()), 200);
  EXPECT_TRUE(eventually([&] {
    return (*server).status(std::string("GET / HTTP/1.1\r\n") + kClose) == 200;
  })) << "the first connection is open for good, and nobody can put it out";
}

TEST(BusyHttpServer, PacksWhileTheHistoryIsWaitedFor) {
  std::promise<void> may_go;
  const std::shared_future<void> go = may_go.get_future().share();
  std::atomic<bool> has_waited = false;
  const auto big = std::make_shared<Body>(std::string(100'000, 'x'));
  Server server(
      [&](const Request& request) {
        if (request.path == "/slow") {
          (void)go.wait_for(kWaitLimit);
          has_waited = true;
        }
        return Response{.status = 200, .content_type = "text/plain", .body = big, .headers = {}};
      },
      {}, [](const Request& request) { return request.path == "/slow"; });
  Client slow(server.port());
  slow.send(std::string("GET /slow HTTP/1.1\r\n") + kClose);
  const std::string packed =
      server.send_and_read(std::string("GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n") + kClose);
  EXPECT_NE(packed.find("Content-Encoding: gzip"), std::string::npos);
  EXPECT_FALSE(has_waited);
  may_go.set_value();
  EXPECT_EQ(testing::status_of(slow.read_to_end()), 200);
}

// Answers that wait to be packed take memory like those that wait to be read.
TEST(BusyHttpServer, WhatWaitsToBePackedIsBounded) {
  constexpr size_t kMiB = size_t{1} << 20;
  std::string text(kMiB, '\0');
  std::ranges::generate(text, [state = 17U]() mutable {
    state = state * 1'664'525 + 1'013'904'223;
    return static_cast<char>(state >> 24);
  });
  ServerLimits limits;
  limits.timeout = std::chrono::hours(1);
  std::mutex mutex;
  std::vector<std::weak_ptr<const Body>> bodies;
  long most = 0;
  Server server(
      [&](const Request&) {
        const auto body = std::make_shared<Body>(text);
        const std::lock_guard guard(mutex);
        bodies.emplace_back(body);
        most = std::max<long>(
            most, std::ranges::count_if(bodies, [](const auto& each) { return !each.expired(); }));
        return Response{.status = 200, .content_type = "text/plain", .body = body, .headers = {}};
      },
      limits);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(std::string("GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n") + kClose);
  }
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard guard(mutex);
    return bodies.size() == clients.size();
  }));
  const std::lock_guard guard(mutex);
  EXPECT_LE(most, static_cast<long>(limits.held_bytes / kMiB) + 1) << "MiB at once";
}

TEST(BusyHttpServer, WhatWasNotBegunIsNotWaitedForAtItsEnd) {
  constexpr int kCount = 100;
  ServerLimits limits;
  limits.slow_requests = kCount;
  std::atomic<int> begun = 0;
  std::atomic<int> asked = 0;
  auto server = std::make_unique<Server>(
      [&](const Request& request) {
        ++begun;
        std::this_thread::sleep_for(milliseconds(50));
        return echo(request);
      },
      limits,
      [&](const Request&) {
        ++asked;
        return true;
      });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kCount; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
    clients.back()->send(std::string("GET / HTTP/1.1\r\n") + kClose);
  }
  EXPECT_TRUE(eventually([&] { return asked == kCount; }));
  server.reset();
  EXPECT_LT(begun, kCount);
}

}  // namespace
}  // namespace vram::serve
