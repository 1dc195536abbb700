// Delivery to a log and to webhooks that fail, hang or come back.
#include "alerts/delivery/notifier.hpp"

#include "alerts/testing/delivery.hpp"
#include "base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

namespace vram::alerts {
namespace {

using testing::answer_with;
using testing::body_of;
using ::testing::HasSubstr;
using testing::kTime;
using testing::kTimeout;
using testing::quick_options;
using testing::StubServer;
using testing::update_of;
using testing::wait_for;

// What a log received, from any thread.
class Lines {
 public:
  std::function<void(std::string_view)> writer() {
    return [shared = shared_](std::string_view line) {
      const std::lock_guard guard(shared->mutex);
      shared->lines.emplace_back(line);
      shared->came.notify_all();
    };
  }
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(shared_->mutex);
    shared_->came.wait_for(lock, kTimeout, [&] { return shared_->lines.size() >= count; });
    return shared_->lines;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable came;
    std::vector<std::string> lines;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

TEST(Notifier, WritesALineForEachChange) {
  Lines text;
  NotifierOptions options = quick_options();
  options.log = LogForm::kText;
  options.write = text.writer();
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(3));
  AlertUpdate no_change = update_of(3);
  no_change.changes.clear();
  notifier->publish(no_change);
  notifier->publish(update_of(4));
  const auto lines = text.wait_for(2);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0],
            "2026-11-22 09:14:05 UTC node17 firing warning temperature: GPU 3 is hot; do: "
            "open a window");
}

TEST(Notifier, WritesStructuredLines) {
  Lines json;
  NotifierOptions options = quick_options();
  options.log = LogForm::kJson;
  options.write = json.writer();
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(3));
  const Json line = Json::parse(json.wait_for(1).at(0));
  EXPECT_EQ(line["@timestamp"], "2026-11-22T09:14:05.000Z");
  EXPECT_EQ(line["log.level"], "warn");
  EXPECT_EQ(line["event.action"], "firing");
  EXPECT_EQ(line["host.name"], "node17");
  EXPECT_EQ(line["labels"]["gpu"], "3");
}

TEST(Notifier, PostsWhatChangedToAWebhook) {
  StubServer server([](size_t) { return answer_with(204); });
  NotifierOptions options = quick_options();
  options.webhooks = {server.url("/hook")};
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(3));
  const Json body = body_of(server.wait_for(1).at(0));
  EXPECT_EQ(body["schema"], "vram.alerts/1");
  EXPECT_EQ(body["host"], "node17");
  ASSERT_EQ(body["alerts"].size(), 1U);
  EXPECT_EQ(body["alerts"][0]["labels"]["gpu"], "3");
  EXPECT_EQ(body["alerts"][0]["state"], "firing");
}

TEST(Notifier, TriesAgainUntilItIsTakenAndKeepsTheOrder) {
  StubServer server([](size_t number) {
    return number == 0 ? answer_with(500, "not now") : number == 1 ? "" : answer_with(200);
  });
  Lines complaints;
  NotifierOptions options = quick_options();
  options.warn = complaints.writer();
  options.webhooks = {server.url()};
  const auto notifier = Notifier::open(options).value();
  for (int number = 0; number < 3; ++number) notifier->publish(update_of(number));
  const auto requests = server.wait_for(5);
  ASSERT_EQ(requests.size(), 5U);
  const std::vector<std::string> expected = {"0", "0", "0", "1", "2"};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(body_of(requests[i])["alerts"][0]["labels"]["gpu"], expected[i]) << i;
  const auto state = wait_for(*notifier, 1, [](const auto& s) { return s.delivered == 3; });
  EXPECT_EQ(state.failed, 2U);
  EXPECT_EQ(state.dropped, 0U);
  EXPECT_EQ(state.trouble, "");
  const auto said = complaints.wait_for(2);
  ASSERT_EQ(said.size(), 2U) << "trouble is told of when it begins and when it ends";
  EXPECT_THAT(said[0], HasSubstr("expected an answer of 200 to 299, found 500: not now"));
  EXPECT_THAT(said[1], HasSubstr("delivered again"));
}

TEST(Notifier, WhatIsRefusedIsNotTriedAgain) {
  StubServer server([](size_t number) { return answer_with(number == 0 ? 400 : 200); });
  NotifierOptions options = quick_options();
  options.webhooks = {server.url()};
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(0));
  notifier->publish(update_of(1));
  const auto state = wait_for(*notifier, 1, [](const auto& s) { return s.delivered == 1; });
  EXPECT_EQ(state.dropped, 1U);
  EXPECT_EQ(state.failed, 1U);
  EXPECT_EQ(server.wait_for(2).size(), 2U);
}

TEST(Notifier, AReceiverThatHangsDelaysNobodyAndItsQueueIsBounded) {
  StubServer hangs([](size_t) { return StubServer::kHang; });
  StubServer works([](size_t) { return answer_with(200); });
  NotifierOptions options = quick_options();
  options.webhooks = {hangs.url(), works.url()};
  options.queue_size = 8;
  auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(0));
  hangs.wait_for(1);
  for (int number = 1; number <= 100; ++number) {
    notifier->publish(update_of(number));
    wait_for(*notifier, 2,
             [&](const auto& s) { return s.delivered == static_cast<size_t>(number) + 1; });
  }
  const auto states = notifier->receivers();
  EXPECT_EQ(states[1].queued, 8U);
  EXPECT_EQ(states[1].dropped, 93U) << "101 told of, 8 kept";
  EXPECT_EQ(states[1].delivered, 0U);
  EXPECT_EQ(states[2].delivered, 101U);
  notifier.reset();  // breaks the hanging one off
}

TEST(Notifier, GivesUpWhatIsTooOld) {
  StubServer server([](size_t) { return answer_with(503); });
  NotifierOptions options = quick_options();
  options.webhooks = {server.url()};
  options.give_up_after = std::chrono::milliseconds(20);
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(0));
  const auto state = wait_for(*notifier, 1, [](const auto& s) { return s.dropped == 1; });
  EXPECT_EQ(state.dropped, 1U);
  EXPECT_EQ(state.queued, 0U);
}

TEST(Notifier, TellsWhatIsQueuedBeforeItEnds) {
  StubServer server([](size_t) { return answer_with(200); });
  NotifierOptions options = quick_options();
  options.webhooks = {server.url()};
  Notifier::open(options).value()->publish(update_of(0));
  EXPECT_EQ(server.wait_for(1).size(), 1U);
}

TEST(Notifier, NamesTheUrlThatIsNone) {
  NotifierOptions options = quick_options();
  options.alertmanagers = {"ftp://am.example"};
  const auto notifier = Notifier::open(options);
  ASSERT_FALSE(notifier);
  EXPECT_THAT(notifier.error().message,
              ::testing::StartsWith("Alertmanager: expected a URL such as"));
}

// What the old one does not take goes to the new one, in order and at once.
TEST(Notifier, AWebhookCanMove) {
  StubServer before([](size_t number) { return answer_with(number == 0 ? 200 : 503); });
  StubServer after([](size_t) { return answer_with(200); });
  NotifierOptions options = quick_options();
  options.first_pause = options.max_pause = kTimeout;  // none is waited for
  options.webhooks = {before.url("/a?key=s3cret")};
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(0));
  wait_for(*notifier, 1, [](const auto& s) { return s.delivered == 1; });
  notifier->publish(update_of(1));
  wait_for(*notifier, 1, [](const auto& s) { return s.failed == 1; });
  const auto refused = notifier->change_url(0, "ftp://s3cret@127.0.0.1/");
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("s3cret")));
  EXPECT_EQ(notifier->receivers().at(1).name + "/", before.url());
  ASSERT_TRUE(notifier->change_url(0, after.url("/b?key=s3cret")).has_value());
  EXPECT_EQ(notifier->receivers().at(1).name + "/", after.url());
  notifier->publish(update_of(2));
  const auto requests = after.wait_for(2);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_THAT(requests[0], ::testing::StartsWith("POST /b?key=s3cret "));
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(body_of(requests[i])["alerts"][0]["labels"]["gpu"], std::to_string(i + 1));
  EXPECT_EQ(before.wait_for(2).size(), 2U);
}

// The new one receives what fires without waiting for the next repeat; webhooks count first.
TEST(Notifier, AnAlertmanagerCanMove) {
  StubServer before([](size_t) { return answer_with(200); });
  StubServer after([](size_t) { return answer_with(200); });
  NotifierOptions options = quick_options();
  options.repeat = kTimeout;
  options.webhooks = {before.url("/hook")};
  options.alertmanagers = {before.url()};
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(3));
  wait_for(*notifier, 2, [](const auto& s) { return s.delivered == 1; });
  ASSERT_TRUE(notifier->change_url(1, after.url("/prefix")).has_value());
  const auto requests = after.wait_for(1);
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_THAT(requests[0], ::testing::StartsWith("POST /prefix/api/v2/alerts "));
  EXPECT_EQ(body_of(requests[0])[0]["annotations"]["summary"], "GPU 3 is hot");
  EXPECT_EQ(notifier->receivers().at(1).name + "/", before.url());
}

TEST(Notifier, NoReceiverNamesAPassword) {
  NotifierOptions options = quick_options();
  options.webhooks = {"http://ann:s3cret@127.0.0.1:1/x?token=s3cret"};
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(0));
  const auto state = wait_for(*notifier, 1, [](const auto& s) { return s.failed > 0; });
  EXPECT_EQ(state.name, "http://127.0.0.1:1");
  EXPECT_THAT(state.trouble, HasSubstr("tried to connect"));
  EXPECT_THAT(state.trouble, ::testing::Not(HasSubstr("s3cret")));
}

// As Express does: "Cannot POST /services/T0/B0/s3cret".
TEST(Notifier, AnAnswerThatRepeatsTheUrlIsNotShown) {
  StubServer server([](size_t) { return answer_with(404, "Cannot POST /services/T0/s3cret"); });
  NotifierOptions options = quick_options();
  options.webhooks = {server.url("/services/T0/s3cret")};
  const auto notifier = Notifier::open(options).value();
  notifier->publish(update_of(0));
  const auto state = wait_for(*notifier, 1, [](const auto& s) { return s.failed > 0; });
  EXPECT_THAT(state.trouble, HasSubstr("found 404"));
  EXPECT_THAT(state.trouble, ::testing::Not(HasSubstr("s3cret")));
}

// An Alertmanager receives the state, again and again, without what is only pending.
TEST(Notifier, RepeatsFiringAlertsToAnAlertmanager) {
  StubServer server([](size_t number) { return answer_with(number == 1 ? 500 : 200); });
  NotifierOptions options = quick_options();
  options.alertmanagers = {server.url("/prefix/")};
  options.link = "http://node17:9877/";
  options.repeat = std::chrono::milliseconds(5);
  const auto notifier = Notifier::open(options).value();
  AlertUpdate update = update_of(3);
  Alert pending = update.alerts[0];
  pending.state = AlertState::kPending;
  update.alerts.push_back(pending);
  notifier->publish(update);
  const auto requests = server.wait_for(4);
  EXPECT_THAT(requests.at(0), ::testing::StartsWith("POST /prefix/api/v2/alerts "));
  const Json body = body_of(requests.at(3));
  ASSERT_EQ(body.size(), 1U);
  EXPECT_EQ(body[0]["labels"]["instance"], "node17");
  EXPECT_EQ(body[0]["generatorURL"], "http://node17:9877/");
  EXPECT_EQ(body[0]["annotations"]["summary"], "GPU 3 is hot");
  EXPECT_LT(body[0]["startsAt"].get<std::string>(), body[0]["endsAt"].get<std::string>());
  update.alerts = {};
  notifier->publish(update);
  wait_for(*notifier, 1, [](const auto& s) { return s.queued == 0; });
}

// A proxy on the way may refuse the last word, after which nothing fires any more.
TEST(Notifier, AnEndThatIsRefusedIsToldWithTheNextRepeat) {
  StubServer server([](size_t number) { return answer_with(number == 0 ? 400 : 200); });
  NotifierOptions options = quick_options();
  options.alertmanagers = {server.url()};
  options.repeat = std::chrono::milliseconds(5);
  const auto notifier = Notifier::open(options).value();
  AlertUpdate update = update_of(3);
  for (Alert* const alert : {&update.changes[0].alert, update.alerts.data()}) {
    alert->state = AlertState::kResolved;
    alert->ended_unix_ns = kTime + 1;
  }
  notifier->publish(update);
  EXPECT_EQ(wait_for(*notifier, 1, [](const auto& s) { return s.delivered == 1; }).failed, 1U);
}

// As after a restart: what there is, without a change.
TEST(Notifier, AnAlertmanagerIsToldAtOnceOfWhatThereIs) {
  StubServer server([](size_t) { return answer_with(200); });
  NotifierOptions options = quick_options();
  options.alertmanagers = {server.url()};
  const auto notifier = Notifier::open(options).value();
  AlertUpdate update = update_of(3);
  update.changes.clear();
  update.alerts[0].state = AlertState::kResolved;
  update.alerts[0].ended_unix_ns = kTime + 1;
  notifier->publish(update);
  EXPECT_EQ(body_of(server.wait_for(1).at(0)).size(), 1U);
}

}  // namespace
}  // namespace vram::alerts
