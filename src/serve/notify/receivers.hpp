// The receivers there are: a log, a webhook, an Alertmanager.
#pragma once

#include "serve/notify/receiver.hpp"

#include <memory>
#include <optional>
#include <string>

namespace vram::serve::notify {

// A line for each alert that began or ended, and troubles of the others as complaints.
class LogReceiver : public Receiver {
 public:
  // How many were dropped to make room.
  virtual size_t take_complaint(const std::string& message, Clock::time_point now) = 0;
};

// One that documents are POSTed to. next() alone, on the courier's thread, changes the address that
// deliver() reads.
class HttpReceiver : public Receiver {
 public:
  HttpReceiver(Target target, std::chrono::milliseconds timeout);
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string key() const override;
  void readdress(const Target& target, Clock::time_point now) override;
  [[nodiscard]] std::string next() final;
  Delivery deliver(const std::string& document, const std::atomic<bool>& must_end) final;

 private:
  [[nodiscard]] virtual std::string next_document() = 0;
  // Of the next document.
  [[nodiscard]] const Target& target() const { return next_target_ ? *next_target_ : target_; }

  Target target_;
  std::optional<Target> next_target_;
  std::chrono::milliseconds timeout_;
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

}  // namespace vram::serve::notify
