// HTTP/1.1 for any number of clients on one thread: none of them waits for another, however slowly
// it reads or writes. What takes long by itself is done on other threads: searches in the history
// and their answers, packing what is large, passwords.
//
//     clients ─▶ HttpServer ─▶ Connection (one each) ─▶ Request ─▶ Handler ─▶ Response ─▶ client
//
// The hooks are called on the server's threads. If there are too many connections, slow responses,
// or unread responses, the one that has been inactive longest is closed; if none was inactive, the
// new one gets 503.
#pragma once

#include "base/result.hpp"
#include "serve/http.hpp"
#include "serve/target.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

class TlsContext;

struct ServerLimits {
  size_t connections = 2048;
  uint32_t header_bytes = 8192;
  uint64_t body_bytes = 65536;  // read and ignored
  uint64_t json_bytes = 4096;   // of a POST, kept until it is answered
  std::chrono::milliseconds read{10'000};
  std::chrono::milliseconds write{20'000};
  std::chrono::milliseconds idle{120'000};   // between two requests
  std::chrono::milliseconds timeout{1'000};  // after which a silent one may be put out
  size_t slow_requests = 32;                 // at once, each until it is written; more get 503
  size_t password_checks = 32;               // at once; more get 503
  size_t handshakes = 128;                   // of TLS at once; more wait
  std::chrono::milliseconds handshake_silence{250};  // then one may be ended for those that wait
  size_t held_bytes = size_t{8} << 20;               // of answers that clients have yet to read
};

struct ServerHooks {
  Handler handle;
  // Whether the answer is made on the second thread.
  std::function<bool(const Request&)> is_slow = [](const Request&) { return false; };
  // Of connections that begin now; null: plain TCP.
  std::function<std::shared_ptr<const TlsContext>()> tls = [] { return nullptr; };
  // Whether the request has a password that must be checked, which takes a fraction of a second;
  // and the check, on a thread of its own, which sets `password_is_right`.
  std::function<bool(const Request&)> needs_password_check = [](const Request&) { return false; };
  std::function<bool(const Request&)> check_password = [](const Request&) { return false; };
  // A client was refused, too slow, or spoke no HTTP.
  std::function<void(std::string_view client, std::string_view what)> incident =
      [](std::string_view, std::string_view) {};
};

class HttpServer {
 public:
  // Listens, without accepting connections yet. kIo: an address is in use, or not of this machine.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> open(std::span<const Address> addresses,
                                                                ServerLimits limits = {});
  // Call it once.
  void start(ServerHooks hooks);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Closes all connections; waits for an answer that is being made, not for those behind it.
  ~HttpServer();

  // With the ports that the kernel chose.
  [[nodiscard]] const std::vector<Address>& addresses() const;
  // Runs `work` on the server's thread; never, if the server hangs.
  void post(std::function<void()> work);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vram::serve
