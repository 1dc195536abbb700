// The receivers there are: a log, a webhook, an Alertmanager.
#pragma once

#include "serve/notify/receiver.hpp"

#include <memory>
#include <optional>
#include <string>

namespace vram::serve::notify {

// Writes a line for each alert that begins or ends, and warnings about other receivers.
class LogReceiver : public Receiver {
 public:
  // How many were dropped to make room.
  virtual size_t take_warning(const std::string& message, Clock::time_point now) = 0;
};

// One that documents are POSTed to. next() alone, on the worker's thread, changes the address that
// deliver() reads.
class HttpReceiver : public Receiver {
 public:
  HttpReceiver(Target target, std::chrono::milliseconds timeout);
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string key() const override;
  void change_url(const Target& target, Clock::time_point now) override;
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
// POSTs a vram.alerts/1 document with the alerts that begin or end in a sample, in order.
[[nodiscard]] std::unique_ptr<Receiver> webhook_receiver(Target target,
                                                         const NotifierOptions& options);
// POSTs all firing and recently resolved alerts to /api/v2/alerts: when one changes, and again
// before the firing ones expire there. Failed documents are not queued: the next try sends the
// state of that time.
[[nodiscard]] std::unique_ptr<Receiver> alertmanager_receiver(Target target,
                                                              const NotifierOptions& options);

}  // namespace vram::serve::notify
