// For tests of delivery: a web server that the test controls, news, and how receivers do.
#pragma once

#include "alerts/delivery/notifier.hpp"
#include "base/json.hpp"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
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

// Answers with a status, hangs, or closes too early. On 127.0.0.1 and a free port, on a thread of
// its own.
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

inline constexpr int64_t kTime = 1'795'338'845'000'000'000;

// An alert that just began; `number` tells it from others.
inline AlertUpdate update_of(int number) {
  Alert alert;
  alert.id = "temperature/gpu" + std::to_string(number);
  alert.rule = "temperature";
  alert.state = AlertState::kFiring;
  alert.since_unix_ns = kTime;
  alert.started_unix_ns = kTime;
  alert.labels = {{"alertname", "temperature"}, {"gpu", std::to_string(number)}};
  alert.summary = "GPU " + std::to_string(number) + " is hot";
  alert.advice = "open a window";
  AlertUpdate update;
  update.moment = {kTime, "node17"};
  update.changes.push_back({alert});
  update.alerts.push_back(std::move(alert));
  return update;
}

inline NotifierOptions quick_options() {
  NotifierOptions options;
  options.log = LogForm::kNone;
  options.first_pause = std::chrono::milliseconds(1);
  options.max_pause = std::chrono::milliseconds(4);
  options.timeout = kTimeout;
  return options;
}

inline Json body_of(const std::string& request) {
  return Json::parse(request.substr(request.find("\r\n\r\n") + 4));
}

// Until a receiver is as expected.
inline ReceiverState wait_for(const Notifier& notifier, size_t place,
                              const std::function<bool(const ReceiverState&)>& is_so) {
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  while (true) {
    const ReceiverState state = notifier.receivers().at(place);
    if (is_so(state) || std::chrono::steady_clock::now() > deadline) return state;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace vram::alerts::testing
