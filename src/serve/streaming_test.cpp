// Answers that are made while they are sent, and the bounds to what is not read.
#include "base/testing/waiting.hpp"
#include "serve/testing/bodies.hpp"
#include "serve/testing/test_server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace vram::serve {
namespace {

using std::chrono::milliseconds;
using testing::Client;
using testing::kClose;
using testing::Server;

// So many pieces, each of this size; counts those that were asked for.
class Pieces final : public Stream {
 public:
  Pieces(size_t count, size_t bytes, std::shared_ptr<std::atomic<size_t>> made)
      : count_(count), bytes_(bytes), made_(std::move(made)) {}
  Result<std::string> next() override {
    if (*made_ == count_) return std::string();
    ++*made_;
    return std::string(bytes_, 'x');
  }
  [[nodiscard]] size_t held_bytes() const override { return bytes_; }

 private:
  size_t count_;
  size_t bytes_;
  std::shared_ptr<std::atomic<size_t>> made_;
};

Response streamed(std::shared_ptr<Stream> stream) {
  return {.status = 200,
          .content_type = "text/plain",
          .body = nullptr,
          .stream = std::move(stream),
          .headers = {}};
}

bool is_any(const Request&) { return true; }

TEST(Streaming, AStreamIsSentPieceByPiece) {
  Server server(
      [](const Request&) {
        return streamed(std::make_shared<Pieces>(3, 10, std::make_shared<std::atomic<size_t>>(0)));
      },
      {}, is_any);
  const std::string piece = "a\r\nxxxxxxxxxx\r\n";
  const std::string answer = server.send_and_read(std::string("GET / HTTP/1.1\r\n") + kClose);
  EXPECT_NE(answer.find("\r\nTransfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(answer.find("Content-Length"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n" + piece + piece + piece + "0\r\n\r\n")) << answer;
  const std::string two = server.send_and_read(
      "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\n" + std::string(kClose));
  EXPECT_EQ(two.find("0\r\n\r\nHTTP/1.1 200"), two.rfind("HTTP/1.1 200") - 5) << "keeps alive";
  const std::string old = server.send_and_read("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(old.ends_with("\r\n\r\n" + std::string(30, 'x'))) << old;
  EXPECT_EQ(old.find("chunked"), std::string::npos);
  const std::string head = server.send_and_read(std::string("HEAD / HTTP/1.1\r\n") + kClose);
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST(Streaming, AStreamIsPackedForWhoAsksForIt) {
  Server server(
      [](const Request&) {
        return streamed(
            std::make_shared<Pieces>(3, 9'000, std::make_shared<std::atomic<size_t>>(0)));
      },
      {}, is_any);
  const std::string answer =
      server.send_and_read("GET / HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
  EXPECT_NE(answer.find("Content-Encoding: gzip"), std::string::npos);
  EXPECT_EQ(testing::gunzip(answer.substr(answer.find("\r\n\r\n") + 4)), std::string(27'000, 'x'));
}

class Failing final : public Stream {
 public:
  Result<std::string> next() override {
    if (++calls_ == 2) return fail(Code::kIo, "the file is gone");
    return std::string("abc");
  }
  [[nodiscard]] size_t held_bytes() const override { return 0; }

 private:
  int calls_ = 0;
};

TEST(Streaming, AStreamThatFailsIsNoWholeAnswer) {
  Server server([](const Request&) { return streamed(std::make_shared<Failing>()); }, {}, is_any);
  const std::string answer = server.send_and_read(std::string("GET / HTTP/1.1\r\n") + kClose);
  EXPECT_TRUE(answer.ends_with("3\r\nabc\r\n")) << answer;
  EXPECT_NE(server.incidents().find("the file is gone"), std::string::npos);
}

// What a client does not read is not made.
TEST(Streaming, AStreamWaitsForItsReader) {
  const auto made = std::make_shared<std::atomic<size_t>>(0);
  constexpr size_t kCount = 4'000;
  Server server(
      [&](const Request&) { return streamed(std::make_shared<Pieces>(kCount, 32'768, made)); }, {},
      is_any);
  Client client(server.port());
  client.send(std::string("GET / HTTP/1.1\r\n") + kClose);
  size_t before = 0;
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(milliseconds(300));
    return std::exchange(before, made->load()) == made->load() && before > 0;
  })) << "it makes pieces for nobody";
  EXPECT_LT(made->load(), kCount / 2) << "the kernel takes some MiB";
  EXPECT_GT(client.read_to_end().size(), kCount * 32'768);
}

TEST(Streaming, ASlowReaderOfAStreamMakesRoomForAnother) {
  ServerLimits limits;
  limits.slow_requests = 1;
  limits.timeout = milliseconds(50);
  Server server(
      [](const Request& request) {
        const size_t count = request.path == "/much" ? 100'000 : 1;
        return streamed(
            std::make_shared<Pieces>(count, 32'768, std::make_shared<std::atomic<size_t>>(0)));
      },
      limits, is_any);
  Client slow(server.port());
  slow.send(std::string("GET /much HTTP/1.1\r\n") + kClose);
  EXPECT_TRUE(eventually([&] {
    return server.status(std::string("GET / HTTP/1.1\r\n") + kClose) == 200;
  })) << "it is counted until it is written, and makes room after its patience";
  EXPECT_NE(server.incidents().find("kept the server waiting"), std::string::npos);
}

TEST(Streaming, WhatIsNotReadIsBounded) {
  ServerLimits limits;
  limits.held_bytes = 20 << 20;
  limits.timeout = std::chrono::hours(1);
  Server server(
      [&](const Request& request) {
        const size_t size = request.path == "/much" ? 16 << 20 : 5'000;
        return Response{.status = 200,
                        .content_type = "text/plain",
                        .body = std::make_shared<Body>(std::string(size, 'x')),
                        .headers = {}};
      },
      limits);
  Client slow(server.port());
  slow.send(std::string("GET /much HTTP/1.1\r\n") + kClose);
  EXPECT_EQ(testing::status_of(slow.read_some()), 200);
  EXPECT_EQ(server.status(std::string("GET /much HTTP/1.1\r\n") + kClose), 503);
  EXPECT_EQ(server.status(std::string("GET / HTTP/1.1\r\n") + kClose), 200);
  EXPECT_GT(slow.read_to_end().size(), 15U << 20);
  EXPECT_EQ(server.status(std::string("GET /much HTTP/1.1\r\n") + kClose), 200);
}

}  // namespace
}  // namespace vram::serve
