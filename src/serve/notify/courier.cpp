#include "serve/notify/courier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vram::serve::notify {

Courier::Courier(std::unique_ptr<Receiver> receiver, Patience patience,
                 std::function<void(const std::string&)> complain)
    : patience_(patience),
      complain_(std::move(complain)),
      receiver_(std::move(receiver)),
      random_(static_cast<unsigned>(Clock::now().time_since_epoch().count())) {
  state_.kind = receiver_->kind();
  state_.name = receiver_->name();
}

std::shared_ptr<Courier> Courier::start(std::unique_ptr<Receiver> receiver, Patience patience,
                                        std::function<void(const std::string&)> complain) {
  const std::shared_ptr<Courier> courier(
      new Courier(std::move(receiver), patience, std::move(complain)));
  courier->thread_.emplace([courier] { courier->run(); });
  return courier;
}

void Courier::tell(const News& news) {
  with_receiver(
      [&](Receiver& receiver, Clock::time_point now) { return receiver.take(news, now); });
}

void Courier::with_receiver(const std::function<size_t(Receiver&, Clock::time_point)>& change) {
  const std::lock_guard guard(mutex_);
  state_.dropped += change(*receiver_, Clock::now());
  changed_.notify_all();
}

void Courier::readdress(const Target& target) {
  const std::lock_guard guard(mutex_);
  const auto now = Clock::now();
  receiver_->readdress(target, now);
  state_.name = receiver_->name();
  pause_ = std::chrono::milliseconds(0);
  retry_ = now;
  changed_.notify_all();
}

ReceiverState Courier::state() const {
  const std::lock_guard guard(mutex_);
  ReceiverState state = state_;
  state.queued = receiver_->queued();
  return state;
}

std::string Courier::key() const {
  const std::lock_guard guard(mutex_);
  return receiver_->key();
}

bool Courier::wants_each_change() const {
  const std::lock_guard guard(mutex_);
  return receiver_->wants_each_change();
}

std::optional<uint64_t> Courier::first_owed() const {
  const std::lock_guard guard(mutex_);
  return receiver_->first_owed();
}

void Courier::close() {
  const std::lock_guard guard(mutex_);
  is_closing_ = true;
  changed_.notify_all();
}

void Courier::end_by(Clock::time_point deadline) {
  constexpr auto kBreakingOff = std::chrono::milliseconds(500);
  if (thread_->join_until(deadline)) return;
  {
    const std::lock_guard guard(mutex_);
    must_end_ = true;
    changed_.notify_all();
  }
  (void)thread_->join_for(kBreakingOff);
}

// Until something can be delivered; false: nothing more will be.
bool Courier::wait(std::unique_lock<std::mutex>& lock) {
  while (!must_end_) {
    const auto due = receiver_->due();
    const auto now = Clock::now();
    if (due && std::max(*due, retry_) <= now) return true;
    if (is_closing_) return false;
    if (due) {
      changed_.wait_until(lock, std::max(*due, retry_));
    } else {
      changed_.wait(lock);
    }
  }
  return false;
}

// Doubles from failure to failure; a part of it is chance, so that many who lost the same receiver
// do not come back as one.
std::chrono::milliseconds Courier::next_pause() {
  pause_ = std::clamp(pause_ * 2, patience_.first_pause, patience_.longest_pause);
  std::uniform_int_distribution<int64_t> part(pause_.count() / 2, pause_.count());
  return std::chrono::milliseconds(part(random_));
}

// The complaint, if there is one to make.
std::string Courier::settle(const Delivery& delivery) {
  const auto now = Clock::now();
  const size_t given_up = receiver_->settle(delivery.outcome, now);
  state_.dropped += given_up;
  const bool was_well = state_.trouble.empty();
  state_.trouble = delivery.trouble;
  if (delivery.outcome != Outcome::kFailed) pause_ = std::chrono::milliseconds(0);
  if (delivery.outcome == Outcome::kDelivered) {
    ++state_.delivered;
    return was_well ? "" : fmt::format("{} {}: delivered again", state_.kind, state_.name);
  }
  ++state_.failed;
  if (delivery.outcome == Outcome::kFailed) retry_ = now + next_pause();
  if (given_up > 0)
    return fmt::format("{}: {}; given up, {} dropped so far", state_.kind, delivery.trouble,
                       state_.dropped);
  return was_well
             ? fmt::format("{}: {}; tried again until it is taken", state_.kind, delivery.trouble)
             : "";
}

void Courier::deliver_one(std::unique_lock<std::mutex>& lock) {
  const std::string document = receiver_->next();
  lock.unlock();
  const Delivery delivery = receiver_->deliver(document, must_end_);
  lock.lock();
  const std::string complaint = settle(delivery);
  if (complaint.empty() || !complain_) return;
  lock.unlock();
  complain_(complaint);
  lock.lock();
}

void Courier::run() {
  std::unique_lock lock(mutex_);
  while (wait(lock)) deliver_one(lock);
}

}  // namespace vram::serve::notify
