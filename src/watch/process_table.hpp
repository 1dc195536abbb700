// ProcessTable: the kernel's facts about processes that use a device. At a process's first lookup
// all of /proc/<pid> is read; afterwards only its stat, to check that it is still the same process
// and program. If the kernel reports that a process has not ended (LifeWatch, queried by
// begin_tick() for all at once), even the stat is read only every eighth tick or after 10 s, and
// for processes that have not changed for a while every 32nd tick or after 40 s. So a changed
// program or parent is noticed that late; another process is noticed immediately.
//
//     begin_tick() ──▶ lives, stat read recently? ──▶ as cached
//                        └── no ──▶ stat ──▶ known, same start and name? ──▶ as cached
//                                        └── no ──▶ status, cmdline, cgroup, environ
//
// Use it from one thread at a time. Reads a bounded part of each file; unreadable values are
// unknown. Reading a container's file may block as long as the system does. A user's
// name that takes long is added when it has been found (Users).
#pragma once

#include "base/process_stat.hpp"
#include "watch/life_watch.hpp"
#include "watch/process_texts.hpp"
#include "watch/snapshot.hpp"
#include "watch/users.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace vram::watch {

// The environment at the start of the process; the program may have changed CUDA's settings since.
struct CudaEnvironment {
  bool is_known = false;  // may be read
  std::optional<std::string> visible_devices;
  std::optional<std::string> device_order;
};

struct KnownProcess {
  Shared<ProcessFacts> facts;
  CudaEnvironment cuda;
  // A zombie: the parent has not read its exit code.
  bool has_ended = false;
};

class ProcessTable {
 public:
  // Whether the pids that drivers report match the pids in /proc here. Drivers count in the host's
  // pid namespace, some in the caller's: in a container, the number may belong to an unrelated
  // process.
  enum class Numbers : uint8_t { kTheSame, kPerhapsOthers };
  // Parts of command lines that must not be shown are not stored either.
  explicit ProcessTable(const std::string& root = "/proc",
                        CommandLines commands = CommandLines::kFull)
      : ProcessTable(root, commands, numbers_in(root)) {}
  ProcessTable(const std::string& root, CommandLines commands, Numbers numbers,
               UserSettings users = {})
      : root_(root),
        commands_(commands),
        numbers_(numbers),
        users_(std::move(users)),
        lives_(root) {}

  // Queries which of the known processes have ended. lookup() relies on it until the tick ends;
  // without this call, it reads the stat of each process.
  void begin_tick();
  // Returns only the pid if the process is not visible. Valid until the process is forgotten.
  [[nodiscard]] const KnownProcess& lookup(uint32_t pid);
  // As lookup(), for a pid reported by a driver. If pids may not match, the local process is used
  // only if it has a GPU open; else only its pid is known.
  [[nodiscard]] const KnownProcess& lookup_named(uint32_t pid);
  [[nodiscard]] const ProcessFacts& facts(uint32_t pid) { return *lookup(pid).facts; }
  // Forgets processes without a lookup since the last call, and ends the tick.
  void forget_unused();
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    KnownProcess process;
    std::string name;  // of the program it runs
    uint64_t read_ns = 0;
    uint32_t same = 0;  // consecutive unchanged stats
    bool is_asked = false;
    bool is_watched = false;
    bool has_gpu = false;   // found open so far
    KnownProcess stranger;  // who has the number elsewhere
    bool lives = false;     // in this tick, as reported by the kernel
  };
  [[nodiscard]] static Numbers numbers_in(const std::string& root);
  [[nodiscard]] bool has_gpu_open(uint32_t pid) const;
  [[nodiscard]] bool is_due(uint32_t pid, const Entry& entry) const;
  [[nodiscard]] bool may_be_there(uint32_t pid, Entry& entry);
  void check(uint32_t pid, Entry& entry);
  void add_user(KnownProcess& process);
  [[nodiscard]] std::string path(uint32_t pid, const char* file) const;
  [[nodiscard]] KnownProcess read(uint32_t pid, const ProcessStat& stat) const;
  [[nodiscard]] CudaEnvironment read_environment(ProcessFacts& facts) const;
  [[nodiscard]] std::optional<std::string> pod_space(uint32_t pid) const;
  [[nodiscard]] bool is_host_name(std::string_view name) const;

  std::string root_;
  CommandLines commands_;
  Numbers numbers_;
  Users users_;
  LifeWatch lives_;
  uint64_t tick_ = 0;
  uint64_t tick_ns_ = 0;  // when it began
  std::unordered_map<uint32_t, Entry> entries_;
};

}  // namespace vram::watch
