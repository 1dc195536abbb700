// Reclaim: who could give GPU memory back. The board's pages, joined with what the drivers say:
// which processes can be asked and what they cache, which ones hold memory and do nothing, and what
// dead ones have left.
//
//     Snapshot, folders of the board ──▶ find_reclaimable ──▶ Reclaimable ──▶ choose ──▶
//     request_trim
//
// One thread at a time, that of the table. Asks nobody and changes nothing.
#pragma once

#include "watch/process_table.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::watch {

// A device as its process posts it.
struct PostedDevice {
  uint64_t number = 0;            // the process's own
  std::optional<uint32_t> index;  // of the snapshot's device, where that is certain
  AllocatorFigures figures;
};

struct Holder {
  ProcessFacts facts;
  std::vector<PostedDevice> posted;
  std::optional<uint64_t> held_bytes;  // on all devices, as the drivers say, else as it posts
  std::optional<uint64_t> step;
  std::optional<uint64_t> quiet_ns;  // since it posted last
  std::string folder;                // where its page lies; empty: it has none, and can't be asked
  bool is_idle = false;              // holds memory and does nothing
  bool is_gone = false;  // no such process any more, says the kernel; the driver names it

  [[nodiscard]] bool can_be_asked() const { return !folder.empty(); }
  // What it would give of all devices, or of one of the snapshot's; unknown is not zero.
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
  std::vector<Holder> holders;  // who gives most first, then by what they hold
  std::vector<DeadPage> dead;
  std::vector<std::string> notes;
};

// This process counts as drivers do, in the machine's own pid namespace, and nothing of /proc is
// hidden from it: a process that a driver names and the kernel does not is gone.
[[nodiscard]] bool sees_all_processes();

struct IdleRule {
  uint64_t held_bytes = uint64_t{256} << 20;     // fewer do not matter
  uint64_t quiet_ns = uint64_t{60'000'000'000};  // longer than most steps, with their checkpoints
};

// A process that posts is idle when it has not for so long and its GPUs did not compute for it;
// another one when the driver knows that it did not compute in the driver's last sample.
[[nodiscard]] bool is_idle(const Process& process, const Snapshot& snapshot,
                           std::optional<uint64_t> held_bytes, std::optional<uint64_t> quiet_ns,
                           const IdleRule& rule = {});

// The folders that may be asked in: this user's, and for root all users'. `named` is the value of
// VRAM_BOARD; empty: not set.
[[nodiscard]] std::vector<std::string> board_folders(const std::string& named);

// Pages count only for processes of the folder's user that began when the page says.
[[nodiscard]] Reclaimable find_reclaimable(const Snapshot& snapshot,
                                           const std::vector<std::string>& folders,
                                           ProcessTable& table);

}  // namespace vram::watch
