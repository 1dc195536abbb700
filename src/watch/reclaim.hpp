// Reclaim: finds GPU memory that could be released, from the status pages and the drivers' figures:
// which processes can be asked and what they cache, which processes are idle but hold memory, and
// what dead processes left.
//
//     Snapshot, status pages ──▶ find_reclaimable ──▶ Reclaimable
//                                                                │
//                                              request_trim ◀── choose
//
// Use it from the table's thread. Sends no request and changes nothing.
#pragma once

#include "base/result.hpp"
#include "watch/process_table.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vram::watch {

// A device as its process posts it.
struct PostedDevice {
  uint64_t number = 0;            // the process's own
  std::optional<uint32_t> index;  // of the snapshot's device, if known
  AllocatorFigures figures;
};

struct Holder {
  ProcessFacts facts;
  std::vector<PostedDevice> posted;
  std::optional<uint64_t> held_bytes;  // on all devices: as drivers report, else as posted
  std::optional<uint64_t> step;
  std::optional<uint64_t> quiet_ns;  // since it posted last
  std::string folder;                // of its page; empty: none, so it cannot be asked
  bool is_idle = false;              // holds memory and does nothing
  // The driver names it, but the kernel has no such process.
  bool is_gone = false;

  [[nodiscard]] bool can_be_asked() const { return !folder.empty(); }
  // How much it could release on all devices, or on one of the snapshot's; may be unknown.
  [[nodiscard]] std::optional<uint64_t> cached_bytes(std::optional<uint32_t> index = {}) const;
};

struct DeadPage {
  uint32_t pid = 0;
  std::string folder;
  std::string command;
};

struct Reclaimable {
  int64_t time_ns = 0;
  std::string host;
  // By releasable memory, then by held memory, descending.
  std::vector<Holder> holders;
  std::vector<DeadPage> dead;
  std::vector<std::string> notes;
};

// True if this process uses the host's pid namespace and /proc hides no process: a process that a
// driver names but the kernel does not know has ended.
[[nodiscard]] bool sees_all_processes();

struct IdleRule {
  uint64_t held_bytes = uint64_t{256} << 20;     // fewer do not matter
  uint64_t quiet_ns = uint64_t{60'000'000'000};  // longer than most steps, with their checkpoints
};

// A process with a page is idle if it has not posted for `quiet_ns` and its GPUs did not compute
// for it; another process, if the driver reports that it did not compute in the last sample period.
[[nodiscard]] bool is_idle(const Process& process, const Snapshot& snapshot,
                           std::optional<uint64_t> held_bytes, std::optional<uint64_t> quiet_ns,
                           const IdleRule& rule = {});

// Returns the folders in which processes can be asked: this user's; for root, all users'. `named`
// is the value of VRAM_BOARD; empty: not set.
[[nodiscard]] std::vector<std::string> board_folders(const std::string& named);

// A page counts only for a process of the folder's user that started when the page says.
[[nodiscard]] Reclaimable find_reclaimable(const Snapshot& snapshot,
                                           const std::vector<std::string>& folders,
                                           ProcessTable& table);

// Asks processes to release memory, all at once, and waits for their answers. Each process answers
// in its own thread, when it next updates its page.
//
//     Reclaimable ──▶ choose ──▶ TrimOrder ──▶ request_trim ──▶ TrimAnswer
//
// May be called from any thread; waits until the given timeout.

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
