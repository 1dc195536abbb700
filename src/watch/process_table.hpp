// ProcessTable: what the kernel says of the processes that use a device. All of /proc/<pid> is read
// when a process is first asked for; afterwards its stat alone, to see that it is still the same
// one running the same program. Of processes that the kernel says have not ended (LifeWatch, asked
// by begin_tick() for all at once) even the stat is read only each eighth tick or after 10 s, and
// of those that stayed the same for a while each 32nd or after 40 s: so late another program or
// another parent of the same process may be seen, never another process.
//
//     begin_tick() ──▶ lives, stat read lately? ──▶ as remembered
//                        └── no ──▶ stat ──▶ known, same start and name? ──▶ as remembered
//                                        └── no ──▶ status, cmdline, cgroup, environ
//
// One thread at a time. Reads a bounded part of each file; what may not be read is unknown. Asking
// for a file of a container may wait as long as the system needs for it. A user's name that is long
// in coming is added when it has come (Users).
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

// What the process was started with; it may have told CUDA something else since.
struct CudaEnvironment {
  bool is_known = false;  // may be read
  std::optional<std::string> visible_devices;
  std::optional<std::string> device_order;
};

struct KnownProcess {
  Shared<ProcessFacts> facts;
  CudaEnvironment cuda;
  bool has_ended = false;  // only its parent has not asked for its exit code yet
};

class ProcessTable {
 public:
  // Whether a number by which a driver names a process is that of the files here. Drivers count as
  // the machine's own pid namespace does, some as the caller's: in a container's namespace it may
  // be the number of a process that has nothing to do with it.
  enum class Numbers : uint8_t { kTheSame, kPerhapsOthers };
  // What is not to be shown of command lines is not kept either.
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

  // Asks which of the known processes have ended. Until the tick ends, look() takes its word for
  // those that have not; without this call it reads the stat of each.
  void begin_tick();
  // Of a process that is not to be seen: its pid alone. Valid until it is forgotten.
  [[nodiscard]] const KnownProcess& look(uint32_t pid);
  // The same of a process that a driver names. Where numbers may be others', it is the process here
  // only if that has a GPU open; else its pid alone is known.
  [[nodiscard]] const KnownProcess& look_named(uint32_t pid);
  [[nodiscard]] const ProcessFacts& facts(uint32_t pid) { return *look(pid).facts; }
  // Those that were not asked for since the last call; ends a tick.
  void forget_unasked();
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    KnownProcess process;
    std::string name;  // of the program it runs
    uint64_t read_ns = 0;
    uint32_t same = 0;  // times that its stat said nothing new, one after another
    bool is_asked = false;
    bool is_watched = false;
    bool has_gpu = false;   // open, as far as it was looked for
    KnownProcess stranger;  // who has the number elsewhere
    bool lives = false;     // so said the kernel in this tick
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
