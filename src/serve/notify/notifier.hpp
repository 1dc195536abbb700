// Notifier: tells people and programs of alerts: a log, webhooks, Alertmanagers.
//
//     Judge ──▶ tell() ──▶ a queue for each receiver ──▶ its own thread ──▶ log, HTTP
//
// Any thread may call everything. tell() only puts a copy in bounded queues and returns: a receiver
// that hangs delays nobody but itself.
#pragma once

#include "base/result.hpp"
#include "show/alerts_json.hpp"
#include "watch/rules/alert.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve::notify {

enum class LogForm : uint8_t { kNone, kText, kJson };

struct NotifierOptions {
  LogForm log = LogForm::kText;
  // Writes one line, without its newline, of an alert; and is told in words of a receiver in
  // trouble. Both are called on one thread of the notifier's, and while that hangs even after its
  // end: let them own what they use. Empty: nobody wants to know.
  std::function<void(std::string_view)> write;
  std::function<void(std::string_view)> complain;
  std::vector<std::string> webhooks;       // URLs
  std::vector<std::string> alertmanagers;  // URLs, a path before /api/v2/alerts allowed
  std::string link;  // where people can look: "http://node17:9877/"; empty: nowhere

  // Times, and how much is kept. Tests want others.
  std::chrono::milliseconds timeout{10'000};     // of one exchange
  std::chrono::milliseconds first_pause{1'000};  // before a second try; then twice that, …
  std::chrono::milliseconds longest_pause{60'000};
  std::chrono::milliseconds give_up_after{3'600'000};  // a webhook's document is dropped then
  std::chrono::milliseconds repeat{60'000};            // firing alerts, to Alertmanagers
  size_t queue_size = 256;  // documents and lines not yet taken; the oldest is dropped for more
};

// One look's news.
struct News {
  show::AlertsMoment moment;
  std::vector<watch::AlertChange> changes;
  std::vector<watch::Alert> alerts;  // all there are: Judge::alerts()
  uint64_t number = 0;               // of those with changes: one more each time
};

// By the receivers' keys: the number of the first news that they may not have had yet. Of those
// alone that want each change; the others are told of what is so.
using Owed = std::map<std::string, uint64_t>;

// How a receiver does.
struct ReceiverState {
  std::string kind;  // "log", "webhook", "alertmanager"
  std::string name;  // its address without secrets
  uint64_t delivered = 0;
  uint64_t failed = 0;   // tries
  uint64_t dropped = 0;  // documents that were never delivered
  size_t queued = 0;
  std::string trouble;  // of the last try; empty: it went well
};

class Courier;

class Notifier {
 public:
  // Errors name the URL that can't be one.
  [[nodiscard]] static Result<std::unique_ptr<Notifier>> open(const NotifierOptions& options);
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  ~Notifier();  // as close()

  // Gives what is queued a second, then ends; whoever hangs longer is left behind.
  void close();
  // To the log's reader: in words, as of a receiver in trouble.
  void complain(const std::string& message);

  // After each look, or only after those with changes: without, it costs next to nothing.
  void tell(const News& news);
  // Another URL for a webhook or an Alertmanager, counted from 0 in the order of the options, the
  // webhooks first. With an error the old one stays.
  [[nodiscard]] Result<> readdress(size_t number, const std::string& url);
  [[nodiscard]] std::vector<ReceiverState> receivers() const;

  // `next`: the number of the next news.
  [[nodiscard]] Owed owed(uint64_t next) const;
  // News of an earlier process, the oldest first: each receiver gets what it was owed. One that was
  // not there gets what is owed to those that are there no more: it may be one of them by another
  // URL.
  void tell_again(const std::vector<News>& news, const Owed& owed);

 private:
  explicit Notifier(std::vector<std::shared_ptr<Courier>> couriers);
  std::vector<std::shared_ptr<Courier>> couriers_;
  bool is_closed_ = false;
};

}  // namespace vram::serve::notify
