// Holders: finds the processes that have DRM descriptors open, without scanning all of /proc every
// second. A tick scans every new process; young processes repeatedly (a program opens its GPU
// seconds after its start); those of a fifth of the rest whose number of descriptors has changed
// (from Linux 6.2 on, the size of the folder); and a slice of all, in turns. A process with a
// descriptor is remembered until it ends or is seen without one.
//
// So an old process that opens a device late is found within kCountTicks; if its number of
// descriptors is unchanged, or the kernel is older, when its slice is scanned. Use it from one
// thread at a time; memory is proportional to the number of processes.
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

  // `users`, sorted by pid, are known to use a device; they are scanned if no descriptor of theirs
  // is known.
  void tick(Files& files, std::span<const uint32_t> users);
  // As of the last tick.
  [[nodiscard]] bool is_running(uint32_t pid) const;
  // By pid.
  [[nodiscard]] std::map<uint32_t, Holder>& all() { return holders_; }

 private:
  struct Known {
    uint32_t pid = 0;
    uint64_t first_tick = 0;  // 0: there from the beginning
    uint64_t fd_size = 0;     // of its folder of descriptors, when it was last scanned
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
  uint32_t next_pid_ = 0;  // the beginning of the next slice
};

}  // namespace vram::gpu::drm
