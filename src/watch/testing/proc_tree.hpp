// A folder that looks like /proc, for tests and benchmarks; each process has the files that a test
// gives it. Removed with this object.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace vram::watch::testing {

// Files of nothing are not there: of another user, or unreadable.
struct FakeProcess {
  uint32_t pid = 0;
  std::string name = "python3";
  uint32_t parent_pid = 1;
  uint64_t start_ticks = 5000;
  uint32_t uid = 0;
  std::optional<std::string> cmdline = std::string("python3\0train.py\0", 17);
  std::optional<std::string> cgroup = "0::/user.slice/user-0.slice/session-2.scope\n";
  std::optional<std::string> environment = std::string("HOME=/root\0LANG=C\0", 18);
};

class ProcTree {
 public:
  ProcTree() {
    std::string folder = std::filesystem::temp_directory_path() / "vram-proc-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    root_ = folder;
  }
  ProcTree(const ProcTree&) = delete;
  ProcTree& operator=(const ProcTree&) = delete;
  ~ProcTree() { std::filesystem::remove_all(root_); }

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] std::string path(uint32_t pid, const std::string& file) const {
    return fmt::format("{}/{}/{}", root_, pid, file);
  }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void remove(uint32_t pid) const { std::filesystem::remove_all(path(pid, "")); }

  void put(const FakeProcess& process) const {
    const uint32_t pid = process.pid;
    write(path(pid, "stat"),
          fmt::format("{} ({}) S {} 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 {} 7929856 1331\n",
                      pid, process.name, process.parent_pid, process.start_ticks));
    write(path(pid, "status"),
          fmt::format("Name:\t{0}\nUmask:\t0022\nPid:\t{1}\nUid:\t{2}\t{2}\t{2}\t{2}\n"
                      "Gid:\t0\t0\t0\t0\n",
                      process.name, pid, process.uid));
    if (process.cmdline) write(path(pid, "cmdline"), *process.cmdline);
    if (process.cgroup) write(path(pid, "cgroup"), *process.cgroup);
    if (process.environment) write(path(pid, "environ"), *process.environment);
  }

 private:
  std::string root_;
};

}  // namespace vram::watch::testing
