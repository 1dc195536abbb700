#include "alerts/delivery/delivery_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vram::alerts {

DeliveryWorker::DeliveryWorker(std::unique_ptr<Receiver> receiver, Backoff backoff,
                               std::function<void(const std::string&)> warn)
    : backoff_(backoff),
      warn_(std::move(warn)),
      receiver_(std::move(receiver)),
      random_(static_cast<unsigned>(Clock::now().time_since_epoch().count())) {
  state_.kind = receiver_->kind();
  state_.name = receiver_->name();
}

std::shared_ptr<DeliveryWorker> DeliveryWorker::start(
    std::unique_ptr<Receiver> receiver, Backoff backoff,
    std::function<void(const std::string&)> warn) {
  const std::shared_ptr<DeliveryWorker> worker(
      new DeliveryWorker(std::move(receiver), backoff, std::move(warn)));
  worker->thread_.emplace([worker] { worker->run(); });
  return worker;
}

void DeliveryWorker::publish(const AlertUpdate& update) {
  with_receiver(
      [&](Receiver& receiver, Clock::time_point now) { return receiver.take(update, now); });
}

void DeliveryWorker::with_receiver(
    const std::function<size_t(Receiver&, Clock::time_point)>& change) {
  const std::lock_guard guard(mutex_);
  state_.dropped += change(*receiver_, Clock::now());
  changed_.notify_all();
}

void DeliveryWorker::change_url(const ReceiverUrl& target) {
  const std::lock_guard guard(mutex_);
  const auto now = Clock::now();
  receiver_->change_url(target, now);
  state_.name = receiver_->name();
  pause_ = std::chrono::milliseconds(0);
  retry_ = now;
  changed_.notify_all();
}

ReceiverState DeliveryWorker::state() const {
  const std::lock_guard guard(mutex_);
  ReceiverState state = state_;
  state.queued = receiver_->queued();
  return state;
}

std::string DeliveryWorker::key() const {
  const std::lock_guard guard(mutex_);
  return receiver_->key();
}

bool DeliveryWorker::needs_every_change() const {
  const std::lock_guard guard(mutex_);
  return receiver_->needs_every_change();
}

std::optional<uint64_t> DeliveryWorker::first_undelivered() const {
  const std::lock_guard guard(mutex_);
  return receiver_->first_undelivered();
}

void DeliveryWorker::close() {
  const std::lock_guard guard(mutex_);
  is_closing_ = true;
  changed_.notify_all();
}

void DeliveryWorker::end_by(Clock::time_point deadline) {
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
bool DeliveryWorker::wait(std::unique_lock<std::mutex>& lock) {
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
std::chrono::milliseconds DeliveryWorker::next_pause() {
  pause_ = std::clamp(pause_ * 2, backoff_.first_pause, backoff_.max_pause);
  std::uniform_int_distribution<int64_t> part(pause_.count() / 2, pause_.count());
  return std::chrono::milliseconds(part(random_));
}

// The complaint, if there is one to make.
std::string DeliveryWorker::settle(const Delivery& delivery) {
  const auto now = Clock::now();
  const size_t given_up = receiver_->settle(delivery.outcome, now);
  state_.dropped += given_up;
  const bool was_well = state_.trouble.empty();
  state_.trouble = delivery.trouble;
  if (delivery.outcome != Outcome::kFailed) pause_ = std::chrono::milliseconds(0);
  if (delivery.outcome == Outcome::kDelivered) {
    ++state_.delivered;
    return was_well ? "" : trf("{} {}: delivered again", state_.kind, state_.name);
  }
  ++state_.failed;
  if (delivery.outcome == Outcome::kFailed) retry_ = now + next_pause();
  if (given_up > 0)
    return trf("{}: {}; given up, {} dropped so far", state_.kind, delivery.trouble,
               state_.dropped);
  return was_well ? trf("{}: {}; tried again until it is taken", state_.kind, delivery.trouble)
                  : "";
}

void DeliveryWorker::deliver_one(std::unique_lock<std::mutex>& lock) {
  const std::string document = receiver_->next();
  lock.unlock();
  const Delivery delivery = receiver_->deliver(document, must_end_);
  lock.lock();
  const std::string complaint = settle(delivery);
  if (complaint.empty() || !warn_) return;
  lock.unlock();
  warn_(complaint);
  lock.lock();
}

void DeliveryWorker::run() {
  std::unique_lock lock(mutex_);
  while (wait(lock)) deliver_one(lock);
}

}  // namespace vram::alerts
