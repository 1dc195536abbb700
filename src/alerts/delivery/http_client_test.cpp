// URLs and one exchange, with servers that do not always do what they should.
#include "alerts/delivery/http_client.hpp"

#include "alerts/delivery/https_client.hpp"
#include "alerts/testing/delivery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::alerts {
namespace {

using testing::answer_with;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::StubServer;

constexpr auto kLong = std::chrono::milliseconds(60'000);

TEST(ParseReceiverUrl, TakesHostPortPathAndWhoAsks) {
  const ReceiverUrl target =
      parse_receiver_url("http://ann:p%40ss:w@am.example:9093/prefix?token=s3").value();
  EXPECT_EQ(target.host, "am.example");
  EXPECT_EQ(target.port, "9093");
  EXPECT_EQ(target.path, "/prefix?token=s3");
  EXPECT_EQ(target.authorization, "Basic YW5uOnBAc3M6dw==");  // ann:p@ss:w
  EXPECT_EQ(target.shown, "http://am.example:9093");
}

TEST(ParseReceiverUrl, FillsInWhatIsLeftOut) {
  EXPECT_EQ(parse_receiver_url("http://localhost").value().port, "80");
  EXPECT_EQ(parse_receiver_url("http://localhost").value().path, "/");
  EXPECT_EQ(parse_receiver_url("http://localhost?a=b").value().path, "/?a=b");
  EXPECT_EQ(parse_receiver_url("http://[::1]:9093/x#y").value().host, "::1");
  EXPECT_EQ(parse_receiver_url("http://[::1]:9093/x#y").value().path, "/x");
  EXPECT_EQ(parse_receiver_url("http://a@h").value().authorization, "Basic YQ==");
  EXPECT_EQ(parse_receiver_url("http://ab@h").value().authorization, "Basic YWI=");
}

TEST(ParseReceiverUrl, TakesHttps) {
  const ReceiverUrl target =
      parse_receiver_url("https://ann:s3cret@chat.example/services/T0").value();
  EXPECT_TRUE(target.is_https);
  EXPECT_EQ(target.port, "443");
  EXPECT_EQ(target.path, "/services/T0");
  EXPECT_EQ(target.shown, "https://chat.example");
  EXPECT_FALSE(parse_receiver_url("http://chat.example").value().is_https);
}

TEST(CurlApi, SaysWhatToInstallWhereThereIsNone) {
  const auto api = CurlApi::load({"libcurl-that-is-not-there.so.4"});
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code, Code::kUnsupported);
  EXPECT_THAT(api.error().message, HasSubstr("libcurl-that-is-not-there.so.4"));
  EXPECT_THAT(api.error().message, HasSubstr("install it"));
  EXPECT_FALSE(CurlApi::load({"libm.so.6"})) << "another library";
}

TEST(ParseReceiverUrl, RefusesTheRestAndRepeatsNoSecret) {
  for (const char* const url :
       {"", "am.example:9093", "ftp://u:s3cret@h", "http://", "http://u:s3cret@", "http://h:0",
        "http://u:s3cret@h:99999", "http://h:9x", "http://[::1", "http://h/a b",
        "http://h/\r\nX: y", "http://u:s3cret/x@h", "http://u:s3cret@h:70000/s3cret?s3cret",
        "u:s3cret@h", "s3cret"}) {
    const auto target = parse_receiver_url(url);
    ASSERT_FALSE(target) << url;
    EXPECT_THAT(target.error().message, HasSubstr("expected a")) << url;
    EXPECT_THAT(target.error().message, Not(HasSubstr("s3cret"))) << url;
  }
  EXPECT_FALSE(parse_receiver_url("http://" + std::string(5'000, 'a')));
}

class PostTest : public ::testing::Test {
 protected:
  Result<Answer> post(const StubServer& server, const std::string& path = "/",
                      std::chrono::milliseconds at_most = kLong) {
    return post_json(parse_receiver_url(server.url(path)).value(), "{\"a\": 1}", at_most,
                     must_end_);
  }
  std::atomic<bool> must_end_{false};
};

TEST_F(PostTest, SendsTheBodyAndReturnsTheAnswer) {
  StubServer server([](size_t) { return answer_with(202, "taken"); });
  const auto answer = post(server, "/hook?x=1");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 202U);
  EXPECT_EQ(answer->body, "taken");
  const std::string request = server.wait_for(1).at(0);
  EXPECT_THAT(request, StartsWith("POST /hook?x=1 HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("Host: 127.0.0.1:"));
  EXPECT_TRUE(request.ends_with("\r\n\r\n{\"a\": 1}")) << request;
}

TEST_F(PostTest, AServerThatHangsIsLeft) {
  StubServer server([](size_t) { return StubServer::kHang; });
  const auto answer = post(server, "/", std::chrono::milliseconds(150));
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message,
              HasSubstr("tried to read the answer: no answer within 150 ms"));
}

TEST_F(PostTest, AWishToEndBreaksItOff) {
  StubServer server([this](size_t) {
    must_end_ = true;
    return StubServer::kHang;
  });
  const auto answer = post(server);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("ended before that"));
}

TEST_F(PostTest, AnswersThatAreNoneAreErrors) {
  StubServer early([](size_t) { return ""; });
  EXPECT_THAT(post(early).error().message, HasSubstr("closed without an answer"));
  StubServer cut([](size_t) { return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"; });
  EXPECT_THAT(post(cut).error().message, HasSubstr("read the answer: "));
  StubServer other([](size_t) { return "220 mail.example ESMTP\x1b[2J\r\n"; });
  EXPECT_THAT(post(other).error().message, HasSubstr("read the answer: "));
}

TEST_F(PostTest, AnAnswerWithoutEndIsAnAnswer) {
  StubServer server([](size_t) { return answer_with(200, std::string(1 << 20, 'x')); });
  const auto answer = post(server);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200U);
  EXPECT_LE(answer->body.size(), size_t{64} << 10);
}

TEST_F(PostTest, NobodyThereIsAnErrorWithoutThePassword) {
  std::string url;
  {
    const StubServer gone([](size_t) { return ""; });
    url = gone.url("/x?token=s3cret");
  }
  url.insert(7, "ann:s3cret@");
  const auto answer = post_json(parse_receiver_url(url).value(), "{}", kLong, must_end_);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr(": tried to connect: "));
  EXPECT_THAT(answer.error().message, Not(HasSubstr("s3cret")));
  EXPECT_THAT(answer.error().message, Not(HasSubstr("/x")));
}

TEST(RepeatsSecret, KnowsThePartsOfAnAddressThatAreNotShown) {
  const ReceiverUrl target =
      parse_receiver_url("http://ann:p%40ss@chat.example/services/T0%2Bab/v1?key=k3yk3y").value();
  for (const char* text : {"Cannot POST /services/T0%2Bab/v1", "no T0+ab", "bad k3yk3y",
                           "Basic YW5uOnBAc3M= is unknown"})
    EXPECT_TRUE(repeats_secret(text, target)) << text;
  for (const char* text : {"", "not found", "v1: no such team", "chat.example is down"})
    EXPECT_FALSE(repeats_secret(text, target)) << text;
}

}  // namespace
}  // namespace vram::alerts
