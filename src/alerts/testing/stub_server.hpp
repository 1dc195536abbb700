// A web server controlled by a test: answers with a status, hangs, or closes too early. On
// 127.0.0.1 and a free port, on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vram::alerts::testing {

inline constexpr auto kTimeout = std::chrono::seconds(60);  // a machine may be busy

inline std::string answer_with(int status, const std::string& body = "") {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class StubServer {
 public:
  // What to send for the request with this number, from 0 on; "" closes without an answer, kHang
  // never answers.
  using Script = std::function<std::string(size_t number)>;
  static constexpr const char* kHang = "hang";

  explicit StubServer(Script script)
      : script_(std::move(script)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, raw, size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, raw, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;
  ~StubServer() {
    must_end_ = true;
    thread_.join();
    (void)close(listener_);
    for (const int connection : hanging_) (void)close(connection);
  }

  std::string url(const std::string& path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  // Returns the heads and bodies of all requests when there are `count`; throws on a timeout.
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, kTimeout, [&] { return requests_.size() >= count; }))
      throw std::runtime_error("waited for " + std::to_string(count) + " requests, got " +
                               std::to_string(requests_.size()));
    return requests_;
  }

 private:
  bool is_readable(int descriptor) const {
    pollfd waiting{descriptor, POLLIN, 0};
    while (!must_end_) {
      if (poll(&waiting, 1, 20) > 0) return true;
    }
    return false;
  }

  std::string read_request(int connection) const {
    std::string text;
    size_t wanted = std::string::npos;
    char part[4096];
    while (text.size() < wanted && is_readable(connection)) {
      const ssize_t got = recv(connection, part, sizeof part, 0);
      if (got <= 0) break;
      text.append(part, static_cast<size_t>(got));
      const size_t end = text.find("\r\n\r\n");
      const size_t length = text.find("Content-Length: ");
      if (end != std::string::npos && length != std::string::npos)
        wanted = end + 4 + std::stoul(text.substr(length + 16));
    }
    return text;
  }

  void run() {
    for (size_t number = 0; is_readable(listener_); ++number) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      std::string request = read_request(connection);
      const std::string answer = script_(number);
      {
        const std::lock_guard guard(mutex_);
        requests_.push_back(std::move(request));
      }
      came_.notify_all();
      if (answer == kHang) {
        hanging_.push_back(connection);
        continue;
      }
      (void)!send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
      (void)close(connection);
    }
  }

  Script script_;
  int listener_;
  unsigned port_ = 0;
  std::atomic<bool> must_end_{false};
  std::mutex mutex_;  // guards requests_
  std::condition_variable came_;
  std::vector<std::string> requests_;
  std::vector<int> hanging_;
  std::thread thread_;
};

}  // namespace vram::alerts::testing
