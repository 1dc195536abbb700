// An HttpServer on a free port, with the incidents that it reported, for tests.
#pragma once

#include "base/testing/waiting.hpp"
#include "serve/http_server.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vram::serve::testing {

// A client that sends arbitrary bytes.

class Client {
 public:
  explicit Client(uint16_t port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int connected =
        connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    EXPECT_EQ(connected, 0);
    const timeval limit{.tv_sec = kWaitLimit.count(), .tv_usec = 0};
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
      EXPECT_EQ(setsockopt(descriptor_, SOL_SOCKET, option, &limit, sizeof limit), 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { (void)close(descriptor_); }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {  // the server has heard enough
        expect_no_timeout("send");
        return;
      }
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // One piece, as it comes.
  std::string read_some() {
    std::array<char, 65536> buffer{};
    const ssize_t count = recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (count < 0) expect_no_timeout("read");
    return {buffer.data(), count > 0 ? static_cast<size_t>(count) : 0};
  }
  std::string read_to_end() {
    std::string all;
    while (true) {
      const std::string piece = read_some();
      if (piece.empty()) return all;
      all += piece;
    }
  }

 private:
  static void expect_no_timeout(const char* what) {
    EXPECT_TRUE(errno != EAGAIN && errno != EWOULDBLOCK)
        << "the server let the client wait to " << what << " for " << kWaitLimit.count() << " s";
  }

  int descriptor_;
};

// The status of the first response; 0: none.
inline int status_of(std::string_view answer) {
  constexpr std::string_view kBegin = "HTTP/1.1 ";
  int status = 0;
  if (answer.starts_with(kBegin))
    (void)std::from_chars(answer.data() + kBegin.size(), answer.data() + answer.size(), status);
  return status;
}

inline Response echo(const Request& request) {
  std::string text = fmt::format("{}|{}|{}|{}", request.path, request.query.size(), request.host,
                                 request.is_local);
  return {.status = 200,
          .content_type = "text/plain",
          .body = std::make_shared<Body>(std::move(text)),
          .headers = {}};
}

class Server {
 public:
  explicit Server(
      Handler handle = echo, ServerLimits limits = {},
      std::function<bool(const Request&)> is_slow = [](const Request&) { return false; }) {
    const std::vector<Address> addresses = {{.ip = "127.0.0.1"}};
    server_ = HttpServer::open(addresses, limits).value();
    server_->start({.handle = std::move(handle),
                    .is_slow = std::move(is_slow),
                    .incident = [this](std::string_view, std::string_view what) {
                      const std::lock_guard guard(mutex_);
                      incidents_ += std::string(what) + "\n";
                    }});
  }

  [[nodiscard]] uint16_t port() const { return server_->addresses().front().port; }
  [[nodiscard]] std::string incidents() {
    const std::lock_guard guard(mutex_);
    return incidents_;
  }
  // Returns the response, until the server closes.
  std::string send_and_read(const std::string& bytes) {
    Client client(port());
    client.send(bytes);
    return client.read_to_end();
  }
  int status(const std::string& bytes) { return status_of(send_and_read(bytes)); }

 private:
  std::mutex mutex_;
  std::string incidents_;
  std::unique_ptr<HttpServer> server_;
};

inline constexpr const char* kClose = "Host: localhost\r\nConnection: close\r\n\r\n";

}  // namespace vram::serve::testing
