// Reclaim: finds GPU memory that could be released, from the status pages and the drivers' figures:
// which processes can be asked and what they cache, which processes are idle but hold memory, and
// what dead processes left.
//
//     Snapshot, folders of the board ──▶ find_reclaimable ──▶ Reclaimable
//                                                                │
//                                              request_trim ◀── choose
//
// Use it from the table's thread. Sends no request and changes nothing.
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

}  // namespace vram::watch
