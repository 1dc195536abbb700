// ProcessTable: what the kernel says of the processes that use a device. All of /proc/<pid> is read
// when a process is first asked for; afterwards its stat alone, to see that it is still the same
// one running the same program.
//
//     stat ──▶ known, same start and name? ──▶ as remembered
//                     └── no ──▶ status, cmdline, cgroup, environ ──▶ ProcessFacts
//
// One thread at a time. Reads a bounded part of each file; what may not be read is unknown. Asking
// for a user's name, or for a file of a container, may wait as long as the system needs for it.
#pragma once

#include "base/process_stat.hpp"
#include "watch/snapshot.hpp"
#include "watch/users.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace vram::watch {

// What the process was started with; it may have told CUDA something else since.
struct CudaEnvironment {
  bool is_known = false;  // may be read
  std::optional<std::string> visible_devices;
  std::optional<std::string> device_order;
};

struct KnownProcess {
  ProcessFacts facts;
  CudaEnvironment cuda;
};

class ProcessTable {
 public:
  explicit ProcessTable(std::string root = "/proc") : root_(std::move(root)) {}

  // Of a process that is not to be seen: its pid alone. Valid until it is forgotten.
  [[nodiscard]] const KnownProcess& look(uint32_t pid);
  [[nodiscard]] const ProcessFacts& facts(uint32_t pid) { return look(pid).facts; }
  // Those that were not asked for since the last call; ends a tick.
  void forget_unasked();
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    KnownProcess process;
    std::string name;  // of the program it runs
    bool is_asked = false;
  };
  [[nodiscard]] std::string path(uint32_t pid, const char* file) const;
  [[nodiscard]] KnownProcess read(uint32_t pid, const ProcessStat& stat);
  void read_environment(KnownProcess& process) const;
  [[nodiscard]] std::optional<std::string> pod_space(uint32_t pid) const;
  [[nodiscard]] bool is_host_name(std::string_view name) const;

  std::string root_;
  Users users_;
  std::unordered_map<uint32_t, Entry> entries_;
};

}  // namespace vram::watch
