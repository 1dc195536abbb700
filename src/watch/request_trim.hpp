// Asking processes to give memory back, all at once, and waiting for what they say: each answers
// when it posts next, in its own thread.
//
//     Reclaimable ──▶ choose ──▶ TrimOrders ──▶ request_trim ──▶ TrimAnswers
//
// Any thread; waits as long as it is told.
#pragma once

#include "base/result.hpp"
#include "watch/reclaim.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vram::watch {

struct TrimChoice {
  std::vector<uint32_t> pids;      // empty: all that can be asked
  std::optional<uint32_t> device;  // of the snapshot
  std::optional<uint64_t> bytes;   // altogether; nothing: all that can be had
};

struct TrimOrder {
  uint32_t pid = 0;
  std::string folder;
  std::optional<uint64_t> device;  // the process's own number; nothing: all
  std::optional<uint64_t> bytes;
};

enum class TrimOutcome : uint8_t {
  kAnswered,
  kSilent,   // it did not post in that time
  kTaken,    // somebody else was asking it all that time
  kEnded,    // the process, before it answered
  kLeft,     // it has taken its page off the board
  kRefused,  // it can't be asked, or not any more: `why` says it
};

struct TrimAnswer {
  uint32_t pid = 0;
  TrimOutcome outcome = TrimOutcome::kSilent;
  std::optional<uint64_t> bytes;  // that came back; unknown: it can't tell, or has not answered
  std::string why;
};

// Whom to ask: those that cache most, until they would give the bytes; without bytes all that cache
// anything or do not say. Processes that were named are asked in any case. kNotFound: a named one
// can't be asked.
[[nodiscard]] Result<std::vector<TrimOrder>> choose(const Reclaimable& from,
                                                    const TrimChoice& choice);

// In the orders' order.
[[nodiscard]] std::vector<TrimAnswer> request_trim(std::span<const TrimOrder> orders,
                                                   uint64_t timeout_ns);

// What came back altogether, as far as it is known.
[[nodiscard]] uint64_t sum_of(std::span<const TrimAnswer> answers);

// Removes the dead pages of this user: how many.
[[nodiscard]] size_t sweep(const std::vector<std::string>& folders);

}  // namespace vram::watch
