// collect(): reads the machine's facts: files of /proc, /sys, /dev and /etc, the environment, and
// the driver's libraries. The only part of the doctor with side effects.
//
//     files below root ─┐
//     NVML, libcuda ────┴─▶ MachineFacts ──▶ examine()
//
// Executes nothing, changes nothing, reads bounded parts of files and blocks on none; a sleeping
// GPU is not woken. The libraries are called on a thread of its own, which is detached if they do
// not answer in time. From one thread.
#pragma once

#include "doctor/facts.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::doctor {

struct Libraries {
  std::string nvml = "libnvidia-ml.so.1";
  std::string cuda = "libcuda.so.1";
  std::chrono::milliseconds timeout = std::chrono::seconds(20);  // with each
};

// Which process to examine; absent: this one.
using Pid = std::optional<uint32_t>;

// Without the libraries, the snapshot and the holders: those are not below a root.
[[nodiscard]] MachineFacts collect(const std::string& root = "/", Pid pid = std::nullopt);

// Reads the facts from the driver's libraries. Do not call it while all GPUs sleep.
void query_libraries(MachineFacts& facts, const Libraries& libraries);

// The parts of collect(): each reads one subject from the files of a tree. Use them from one thread
// at a time.

// Tree: the files of a machine below a root folder, read in bounded parts, never waiting. Whatever
// is missing or unreadable is absent. One thread at a time.
class Tree {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 10;

  explicit Tree(std::string root);

  // Paths begin with a slash. The file's beginning, whatever bytes it has.
  [[nodiscard]] std::optional<std::string> read(const std::string& path,
                                                size_t max_bytes = kMaxBytes) const;
  // Its first line; "" if there is none.
  [[nodiscard]] std::string line(const std::string& path) const;
  [[nodiscard]] std::optional<uint64_t> number(const std::string& path) const;
  [[nodiscard]] bool exists(const std::string& path) const;
  // The target of a symbolic link; "" if it is none.
  [[nodiscard]] std::string link(const std::string& path) const;
  // The sorted names in a folder, at most 64 Ki.
  [[nodiscard]] std::vector<std::string> names(const std::string& folder) const;
  [[nodiscard]] DeviceNode node(const std::string& path) const;
  [[nodiscard]] FolderFacts folder(const std::string& path) const;
  [[nodiscard]] std::string at(std::string_view path) const;

 private:
  [[nodiscard]] std::optional<std::string> group_of(uint32_t gid) const;
  std::string root_;  // without the last slash
};

[[nodiscard]] std::vector<PciGpu> read_gpus(const Tree& tree);
[[nodiscard]] std::vector<DrmFacts> read_drm(const Tree& tree);
[[nodiscard]] NvidiaFacts read_nvidia(const Tree& tree, const std::string& kernel);
[[nodiscard]] PlatformFacts read_platform(const Tree& tree);
// `who` is the process's name below /proc: "self", or its number.
[[nodiscard]] ProcessFacts read_process(const Tree& tree, const std::string& who);
[[nodiscard]] ContainerFacts read_container(const Tree& tree, const std::string& who,
                                            const ProcessFacts& process);
[[nodiscard]] MpsFacts read_mps(const Tree& tree, const ProcessFacts& process);

// The Xids in the kernel's log, which may hold anything that a program could write there.
[[nodiscard]] std::vector<LoggedXid> xids_in(std::string_view log);
[[nodiscard]] std::optional<std::vector<LoggedXid>> read_xids(const Tree& tree);

}  // namespace vram::doctor
