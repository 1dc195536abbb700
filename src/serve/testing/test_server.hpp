// An HttpServer on a free port, with the incidents that it reported, for tests.
#pragma once

#include "serve/http_server.hpp"
#include "serve/testing/client.hpp"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vram::serve::testing {

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
