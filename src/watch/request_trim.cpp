#include "watch/request_trim.hpp"

#include "record/sweep.hpp"
#include "record/trim_requester.hpp"
#include "watch/sources.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace vram::watch {
namespace {

using record::TrimRequester;
using record::TrimState;

constexpr auto kPause = std::chrono::milliseconds(5);

std::optional<uint64_t> own_number(const Holder& holder, std::optional<uint32_t> device) {
  const auto posted = std::ranges::find_if(
      holder.posted, [&](const PostedDevice& each) { return each.index == device; });
  return !device || posted == holder.posted.end() ? std::nullopt : std::optional(posted->number);
}

bool is_worth_trying(const Holder& holder, const TrimChoice& choice) {
  if (!holder.can_be_asked()) return false;
  if (choice.device && !own_number(holder, choice.device)) return false;
  return holder.cached_bytes(choice.device) != 0U;
}

TrimOrder order_for(const Holder& holder, const TrimChoice& choice) {
  return {holder.facts.pid, holder.folder, own_number(holder, choice.device), choice.bytes};
}

Result<std::vector<TrimOrder>> named_orders(const Reclaimable& from, const TrimChoice& choice) {
  std::vector<TrimOrder> orders;
  for (const uint32_t pid : choice.pids) {
    const auto holder = std::ranges::find_if(from.holders, [&](const Holder& each) {
      return each.facts.pid == pid && each.can_be_asked();
    });
    if (holder == from.holders.end()) {
      return fail(Code::kNotFound,
                  "process {} has no page on the board, so it can't be asked: it must run as your "
                  "user and open a vram.Board(); 'vram free' lists who can be asked",
                  pid);
    }
    if (choice.device && !own_number(*holder, choice.device)) {
      return fail(Code::kNotFound,
                  "process {} does not say what it holds of GPU {}: leave --device out", pid,
                  *choice.device);
    }
    orders.push_back(order_for(*holder, choice));
  }
  return orders;
}

record::TrimTarget target_of_order(const TrimOrder& order) {
  return {order.device.value_or(record::kBoardUnknown),
          order.bytes.value_or(record::kBoardUnknown)};
}

TrimAnswer answer_of(uint32_t pid, const TrimRequester& requester) {
  switch (requester.state()) {
    case TrimState::kAnswered:
      return {pid, TrimOutcome::kAnswered, requester.bytes(), ""};
    case TrimState::kAsked:
      return {pid, TrimOutcome::kSilent, {}, ""};
    case TrimState::kQueued:
      return {pid, TrimOutcome::kTaken, {}, ""};
    case TrimState::kOwnerDied:
      return {pid, TrimOutcome::kEnded, {}, ""};
    case TrimState::kWithdrawn:
      return {pid, TrimOutcome::kLeft, {}, ""};
    case TrimState::kBroken:
      break;
  }
  return {pid, TrimOutcome::kRefused, {}, "its page can't be read any more"};
}

}  // namespace

Result<std::vector<TrimOrder>> choose(const Reclaimable& from, const TrimChoice& choice) {
  if (!choice.pids.empty()) return named_orders(from, choice);
  std::vector<const Holder*> holders;
  for (const Holder& holder : from.holders) {
    if (is_worth_trying(holder, choice)) holders.push_back(&holder);
  }
  const auto cached = [&](const Holder* holder) {
    return holder->cached_bytes(choice.device).value_or(0);
  };
  std::ranges::stable_sort(holders, std::greater{}, cached);
  std::vector<TrimOrder> orders;
  uint64_t left = choice.bytes.value_or(UINT64_MAX);
  for (const Holder* holder : holders) {
    if (left == 0) break;
    orders.push_back(order_for(*holder, choice));
    left -= choice.bytes ? std::min(left, cached(holder)) : 0;
  }
  return orders;
}

std::vector<TrimAnswer> request_trim(std::span<const TrimOrder> orders, uint64_t timeout_ns) {
  const uint64_t end = monotonic_ns() + timeout_ns;
  std::vector<Result<TrimRequester>> requester;
  requester.reserve(orders.size());
  for (const TrimOrder& order : orders)
    requester.push_back(TrimRequester::start(order.folder, order.pid, target_of_order(order)));
  const auto is_open = [](Result<TrimRequester>& each) {
    if (each) each->poll();
    return each && !each->is_over();
  };
  while (std::ranges::count_if(requester, is_open) > 0 && monotonic_ns() < end)
    std::this_thread::sleep_for(kPause);
  std::vector<TrimAnswer> answers;
  for (size_t i = 0; i < requester.size(); ++i) {
    answers.push_back(
        requester[i]
            ? answer_of(orders[i].pid, *requester[i])
            : TrimAnswer{orders[i].pid, TrimOutcome::kRefused, {}, requester[i].error().message});
  }
  return answers;
}

uint64_t sum_of(std::span<const TrimAnswer> answers) {
  uint64_t sum = 0;
  for (const TrimAnswer& answer : answers) {
    if (__builtin_add_overflow(sum, answer.bytes.value_or(0), &sum)) return UINT64_MAX;
  }
  return sum;
}

size_t sweep(const std::vector<std::string>& folders) {
  size_t swept = 0;
  for (const std::string& folder : folders) {
    if (const auto pids = record::sweep_board(folder)) swept += pids->size();
  }
  return swept;
}

}  // namespace vram::watch
