// What receivers were owed, before and after a restart or a change of their URLs.
#include "alerts/delivery/http_client.hpp"
#include "alerts/delivery/notifier.hpp"
#include "alerts/testing/delivery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::alerts {
namespace {

using ::testing::_;
using testing::answer_with;
using testing::body_of;
using ::testing::ElementsAre;
using ::testing::Pair;
using testing::quick_options;
using testing::StubServer;
using testing::update_of;
using testing::wait_for;

TEST(Undelivered, KnowsWhatAWebhookHasNotHadYet) {
  StubServer server([](size_t number) { return answer_with(number < 3 ? 500 : 200); });
  NotifierOptions options = quick_options();
  options.webhooks = {server.url()};
  options.alertmanagers = {"http://127.0.0.1:1/"};
  options.first_pause = options.max_pause = std::chrono::milliseconds(50);
  const auto notifier = Notifier::open(options).value();
  const Undelivered undelivered = notifier->undelivered(7);
  EXPECT_THAT(undelivered, ElementsAre(Pair(_, 7U)));
  AlertUpdate update = update_of(3);
  update.number = 7;
  notifier->publish(update);
  EXPECT_EQ(notifier->undelivered(8).begin()->second, 7U);
  wait_for(*notifier, 1, [](const auto& s) { return s.delivered == 1; });
  EXPECT_EQ(notifier->undelivered(8).begin()->second, 8U);
  AlertUpdate older = update;
  older.number = 6;
  notifier->publish_again({older, update}, undelivered);
  wait_for(*notifier, 1, [](const auto& s) { return s.delivered == 2; });
  EXPECT_EQ(server.wait_for(5).size(), 5U) << "three refused, and the same news twice";
}

AlertUpdate numbered(uint64_t number) {
  AlertUpdate update = update_of(static_cast<int>(number));
  update.number = number;
  return update;
}

// What each of the URLs gets of news 1 and 2 after a restart, when it is owed that.
std::vector<std::string> told_again(const std::vector<std::string>& before,
                                    const std::vector<std::string>& after, StubServer& server,
                                    size_t count) {
  NotifierOptions options = quick_options();
  options.webhooks = before;
  Undelivered undelivered = Notifier::open(options).value()->undelivered(3);
  NotifierOptions first_alone = options;
  first_alone.webhooks.resize(1);
  for (auto& [key, first] : Notifier::open(first_alone).value()->undelivered(2))
    undelivered[key] = first;
  options.webhooks = after;
  {
    const auto notifier = Notifier::open(options).value();
    notifier->publish_again({numbered(1), numbered(2)}, undelivered);
  }
  std::vector<std::string> told;
  for (const std::string& request : server.wait_for(count))
    told.push_back(request.substr(5, request.find(' ', 5) - 5) + " " +
                   body_of(request)["alerts"][0]["labels"]["gpu"].get<std::string>());
  return told;
}

TEST(Undelivered, OfTwoWebhooksOnOneHostEachGetsWhatItIsOwed) {
  StubServer server([](size_t) { return answer_with(200); });
  const std::vector<std::string> urls = {server.url("/a?key=1"), server.url("/a?key=2")};
  EXPECT_THAT(told_again(urls, urls, server, 1), ElementsAre("/a?key=1 2"));
}

TEST(Undelivered, TheirOrderMayChange) {
  StubServer server([](size_t) { return answer_with(200); });
  EXPECT_THAT(told_again({server.url("/a"), server.url("/b")}, {server.url("/b"), server.url("/a")},
                         server, 1),
              ElementsAre("/a 2"));
}

// As after SIGHUP: a new password is no new receiver.
TEST(Undelivered, WhatIsOwedToAnUrlThatIsNoMoreGoesToTheNewOne) {
  StubServer server([](size_t) { return answer_with(200); });
  EXPECT_THAT(told_again({server.url("/a"), server.url("/b")},
                         {server.url("/new"), server.url("/b")}, server, 1),
              ElementsAre("/new 2"));
}

TEST(Undelivered, NoKeyHasASecret) {
  const ReceiverUrl target =
      parse_receiver_url("http://ann:s3cret@127.0.0.1:1/x?token=s3cret").value();
  EXPECT_THAT(target.key, ::testing::MatchesRegex("http://127\\.0\\.0\\.1:1 [0-9a-f]{4}"));
  EXPECT_EQ(target.key, parse_receiver_url("http://ann:s3cret@127.0.0.1:1/x?token=s3cret")->key);
  EXPECT_NE(target.key, parse_receiver_url("http://ann:s3cret@127.0.0.1:1/x?token=s3cr3t")->key);
}

// The receiver's password changes before ours does: what comes in between is not lost.
TEST(Undelivered, APasswordThatChangesLosesNothing) {
  for (const int refusal : {401, 403, 404, 407, 410}) {
    StubServer before([=](size_t) { return answer_with(refusal); });
    StubServer after([](size_t) { return answer_with(200); });
    NotifierOptions options = quick_options();
    options.webhooks = {before.url("/old")};
    const auto notifier = Notifier::open(options).value();
    notifier->publish(update_of(0));
    wait_for(*notifier, 1, [](const auto& s) { return s.failed >= 2; });
    ASSERT_TRUE(notifier->change_url(0, after.url("/new")).has_value());
    const auto state = wait_for(*notifier, 1, [](const auto& s) { return s.delivered == 1; });
    EXPECT_EQ(state.delivered, 1U) << refusal;
    EXPECT_EQ(state.dropped, 0U) << refusal;
  }
}

}  // namespace
}  // namespace vram::alerts
