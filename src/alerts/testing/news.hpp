// News for receivers, and how they do, for tests of delivery.
#pragma once

#include "alerts/delivery/notifier.hpp"
#include "alerts/testing/stub_server.hpp"
#include "base/json.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace vram::alerts::testing {

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
