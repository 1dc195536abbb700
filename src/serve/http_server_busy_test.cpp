// The server while it has much to do, and at its end.
#include "base/testing/waiting.hpp"
#include "serve/testing/test_server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

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
  limits.patience = std::chrono::hours(1);
  BusyServer server(limits);
  Client client((*server).port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n");
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

}  // namespace
}  // namespace vram::serve
