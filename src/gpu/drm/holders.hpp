// Holders: which processes have which DRM descriptors open, found without looking at all of /proc
// each second. A tick looks at every new process, at young ones again and again (a program opens
// its GPU seconds after it began), at those of a fifth of the rest whose number of descriptors is
// another than last time (Linux 6.2 and later say it as the folder's size), and at a slice of all,
// which takes turns. Who holds something is remembered until its process is gone or was seen
// without it.
//
// So an old process that opens a device late is seen within kCountTicks; where its number stays the
// same, or the kernel is older, when the slices come to it. One thread at a time; memory by the
// number of processes.
#pragma once

#include "gpu/drm/files.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu::drm {

// Of a client: its device and its number there.
using ClientKey = std::pair<uint32_t, uint64_t>;

struct Descriptor {
  uint32_t number = 0;
  std::string node;                 // "renderD128"
  std::optional<ClientKey> client;  // as last read
};

struct Holder {
  uint32_t pid = 0;
  uint64_t start_ticks = 0;  // since boot: with the pid, this process and no later one
  std::vector<Descriptor> descriptors;
};

class Holders {
 public:
  // Links followed in a tick, but for new processes: some 0.2 ms.
  static constexpr uint64_t kLinksATick = 64;
  static constexpr uint64_t kCountTicks = 5;

  explicit Holders(std::string proc) : proc_(std::move(proc)) {}

  // `users`, in order of their pids, are known to use a device, and are looked at if they hold
  // nothing yet.
  void tick(Files& files, std::span<const uint32_t> users);
  // As of the last tick.
  [[nodiscard]] bool is_running(uint32_t pid) const;
  // By pid.
  [[nodiscard]] std::map<uint32_t, Holder>& all() { return holders_; }

 private:
  struct Known {
    uint32_t pid = 0;
    uint64_t first_tick = 0;  // 0: there from the beginning
    uint64_t fd_size = 0;     // of its folder of descriptors, when that was last looked at
  };
  void update_known(Files& files);
  [[nodiscard]] bool is_new(const Known& known) const;
  [[nodiscard]] bool is_due(const Known& known) const;
  [[nodiscard]] bool has_another_size(const Known& known) const;
  void sweep(Files& files, uint64_t links_before);
  void scan(Files& files, Known& known);
  [[nodiscard]] std::string folder_of(uint32_t pid) const;

  std::string proc_;
  std::vector<Known> known_;  // by pid
  std::map<uint32_t, Holder> holders_;
  uint64_t ticks_ = 0;
  uint32_t next_pid_ = 0;  // where the next slice begins
};

}  // namespace vram::gpu::drm
