// Asks processes to release memory, all at once, and waits for their answers. Each process answers
// in its own thread, when it next updates its page.
//
//     Reclaimable ──▶ choose ──▶ TrimOrders ──▶ request_trim ──▶ TrimAnswers
//
// May be called from any thread; waits until the given timeout.
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
  kSilent,  // it did not post in that time
  kTaken,   // another request was pending the whole time
  kEnded,   // the process, before it answered
  kLeft,    // it has taken its page off the board
  // It cannot be asked, or no longer; `why` has the reason.
  kRefused,
};

struct TrimAnswer {
  uint32_t pid = 0;
  TrimOutcome outcome = TrimOutcome::kSilent;
  // Released bytes; unknown if the process cannot tell, or has not answered.
  std::optional<uint64_t> bytes;
  std::string why;
};

// Selects the processes to ask: by cached memory, descending, until they would release the bytes;
// without bytes, all that cache memory or do not report it. Named processes are always selected.
// kNotFound: a named process cannot be asked.
[[nodiscard]] Result<std::vector<TrimOrder>> choose(const Reclaimable& from,
                                                    const TrimChoice& choice);

// In the orders' order.
[[nodiscard]] std::vector<TrimAnswer> request_trim(std::span<const TrimOrder> orders,
                                                   uint64_t timeout_ns);

// Returns the sum of the known released bytes.
[[nodiscard]] uint64_t sum_of(std::span<const TrimAnswer> answers);

// Removes the dead pages of this user: how many.
[[nodiscard]] size_t sweep(const std::vector<std::string>& folders);

}  // namespace vram::watch
