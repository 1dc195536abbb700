// A client that sends arbitrary bytes.
#pragma once

#include "base/testing/waiting.hpp"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace vram::serve::testing {

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

}  // namespace vram::serve::testing
