// The receivers there are: a log, a webhook, an Alertmanager.
#pragma once

#include "serve/notify/http_client.hpp"
#include "serve/notify/receiver.hpp"

#include <memory>
#include <string>

namespace vram::serve::notify {

// A line for each alert that began or ended, and troubles of the others as complaints.
class LogReceiver : public Receiver {
 public:
  // How many were dropped to make room.
  virtual size_t take_complaint(const std::string& message, Clock::time_point now) = 0;
};

[[nodiscard]] std::unique_ptr<LogReceiver> log_receiver(const NotifierOptions& options);
// POSTs a document vram.alerts/1 with the alerts that a look began or ended, in order.
[[nodiscard]] std::unique_ptr<Receiver> webhook_receiver(Target target,
                                                         const NotifierOptions& options);
// POSTs all firing and lately resolved alerts to /api/v2/alerts: when one of them changes, and
// again before the firing ones expire there. What is not delivered is not queued: the next try
// tells of the state then.
[[nodiscard]] std::unique_ptr<Receiver> alertmanager_receiver(Target target,
                                                              const NotifierOptions& options);

// What an HTTP status means for whoever posted.
[[nodiscard]] Delivery delivery_of(const Target& target, const Result<Answer>& answer);

}  // namespace vram::serve::notify
