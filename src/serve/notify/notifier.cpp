#include "serve/notify/notifier.hpp"

#include "base/check.hpp"
#include "serve/notify/courier.hpp"
#include "serve/notify/receivers.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vram::serve::notify {
namespace {

using MakeReceiver = std::unique_ptr<Receiver> (*)(Target target, const NotifierOptions& options);
using Receivers = std::vector<std::unique_ptr<Receiver>>;

Result<> add_all(const std::vector<std::string>& urls, std::string_view kind, MakeReceiver make,
                 const NotifierOptions& options, Receivers& receivers) {
  for (const std::string& url : urls) {
    auto target = usable_target(url);
    if (!target) return fail(target.error().code, "{}: {}", kind, target.error().message);
    receivers.push_back(make(std::move(*target), options));
  }
  return {};
}

void complain_to(Courier& log, const std::string& message) {
  log.with_receiver([&](Receiver& receiver, Clock::time_point now) {
    return static_cast<LogReceiver&>(receiver).take_complaint(message, now);
  });
}

}  // namespace

Result<std::unique_ptr<Notifier>> Notifier::open(const NotifierOptions& options) {
  Receivers receivers;
  auto added = add_all(options.webhooks, "webhook", webhook_receiver, options, receivers);
  if (added)
    added =
        add_all(options.alertmanagers, "Alertmanager", alertmanager_receiver, options, receivers);
  if (!added) return tl::unexpected(std::move(added.error()));

  const Patience patience{options.first_pause, options.longest_pause};
  auto log = Courier::start(log_receiver(options), patience, {});
  // What goes wrong with the others is written by the log's thread: none of them waits for it.
  const auto complain = [log](const std::string& message) { complain_to(*log, message); };
  std::vector<std::shared_ptr<Courier>> couriers{std::move(log)};
  for (auto& receiver : receivers)
    couriers.push_back(Courier::start(std::move(receiver), patience, complain));
  return std::unique_ptr<Notifier>(new Notifier(std::move(couriers)));
}

Notifier::Notifier(std::vector<std::shared_ptr<Courier>> couriers)
    : couriers_(std::move(couriers)) {}

Notifier::~Notifier() { close(); }

// The log comes last: the others may still complain.
void Notifier::close() {
  if (std::exchange(is_closed_, true)) return;
  constexpr auto kPatience = std::chrono::seconds(1);
  const auto deadline = Clock::now() + kPatience;
  for (size_t i = 1; i < couriers_.size(); ++i) couriers_[i]->close();
  for (size_t i = 1; i < couriers_.size(); ++i) couriers_[i]->end_by(deadline);
  couriers_[0]->close();
  couriers_[0]->end_by(deadline);
}

void Notifier::complain(const std::string& message) { complain_to(*couriers_[0], message); }

void Notifier::tell(const News& news) {
  for (const auto& courier : couriers_) courier->tell(news);
}

Owed Notifier::owed(uint64_t next) const {
  Owed owed;
  for (const auto& courier : couriers_) {
    if (!courier->wants_each_change()) continue;
    const auto first = courier->first_owed().value_or(next);
    const auto [entry, is_new] = owed.try_emplace(courier->key(), first);
    entry->second = std::min(entry->second, first);  // of 65,536 pairs on one host one shares a key
  }
  return owed;
}

void Notifier::tell_again(const std::vector<News>& news, const Owed& owed) {
  Owed of_others = owed;
  for (const auto& courier : couriers_) of_others.erase(courier->key());
  uint64_t first_of_others = std::numeric_limits<uint64_t>::max();
  for (const auto& [key, first] : of_others) first_of_others = std::min(first_of_others, first);
  for (const auto& courier : couriers_) {
    if (!courier->wants_each_change()) continue;
    const auto own = owed.find(courier->key());
    const uint64_t first = own == owed.end() ? first_of_others : own->second;
    for (const News& one : news) {
      if (one.number >= first) courier->tell(one);
    }
  }
}

// The log is the first courier.
Result<> Notifier::readdress(size_t number, const std::string& url) {
  VRAM_CHECK(number + 1 < couriers_.size());
  const auto target = usable_target(url);
  if (!target) return tl::unexpected(target.error());
  couriers_[number + 1]->readdress(*target);
  return {};
}

std::vector<ReceiverState> Notifier::receivers() const {
  std::vector<ReceiverState> states;
  for (const auto& courier : couriers_) states.push_back(courier->state());
  return states;
}

}  // namespace vram::serve::notify
