// RecordedTree: a machine's /sys and /proc as a folder, from a text file (tests/data/drm written by
// hand, tests/data/recorded_gpus from real machines):
//
//     # a comment
//     sys/class/drm/card0/device/uevent
//     	DRIVER=amdgpu                        after a tab: a line of the file above
//     proc/4211/fd/5 -> /dev/dri/renderD128   a symbolic link
//
// The folder is in memory, or else in the temporary folder, while the object lives. Use it from one
// thread at a time.
#pragma once

#include "base/result.hpp"
#include "base/testing/paths.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/drm/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace vram::gpu {

class RecordedTree {
 public:
  // Empty.
  RecordedTree() : folder_(unused_folder()) {
    std::filesystem::create_directories(folder_ / "sys");
    std::filesystem::create_directories(folder_ / "proc");
  }
  explicit RecordedTree(const std::filesystem::path& text) : RecordedTree() { unpack(text); }
  RecordedTree(const RecordedTree&) = delete;
  RecordedTree& operator=(const RecordedTree&) = delete;
  ~RecordedTree() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] drm::Roots roots() const {
    return {(folder_ / "sys").string(), (folder_ / "proc").string()};
  }
  // Returns whether the size of a folder is its number of entries.
  [[nodiscard]] bool is_in_memory() const { return folder_.string().starts_with(kMemory); }

  void write(const std::string& path, std::string_view contents) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << contents;
  }
  void link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::filesystem::create_symlink(target, folder_ / path);
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(folder_ / path); }
  // A process; `start_ticks` is when it began.
  void add_process(uint32_t pid, uint64_t start_ticks) const {
    write("proc/" + std::to_string(pid) + "/stat",
          std::to_string(pid) + " (a name) with) S 1 1 1 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 " +
              std::to_string(start_ticks) + " 1 1\n");
    std::filesystem::create_directories(folder_ / "proc" / std::to_string(pid) / "fd");
  }
  void add_descriptor(uint32_t pid, uint32_t number, const std::string& target,
                      std::string_view fdinfo) const {
    const std::string process = "proc/" + std::to_string(pid);
    link(process + "/fd/" + std::to_string(number), target);
    write(process + "/fdinfo/" + std::to_string(number), fdinfo);
  }
  // Adds processes with this many irrelevant descriptors each. They share one folder of
  // descriptors, since creating thousands of links takes seconds.
  void add_crowd(uint32_t first_pid, uint32_t processes, uint32_t descriptors) const {
    for (uint32_t number = 0; number < descriptors; ++number)
      link("crowd/" + std::to_string(number), "/dev/null");
    for (uint32_t pid = first_pid; pid < first_pid + processes; ++pid) {
      const auto process = folder_ / "proc" / std::to_string(pid);
      std::filesystem::create_directory(process);
      std::filesystem::create_directory_symlink(folder_ / "crowd", process / "fd");
    }
  }
  // All files, without the links, in order.
  [[nodiscard]] std::vector<std::filesystem::path> files() const;
  [[nodiscard]] static std::string contents_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  static constexpr const char* kMemory = "/dev/shm";
  static std::filesystem::path unused_folder() {
    static std::atomic<uint32_t> made{0};
    const bool has_memory = access(kMemory, W_OK) == 0;
    return (has_memory ? kMemory : std::filesystem::temp_directory_path()) /
           ("vram_tree." + std::to_string(getpid()) + "." + std::to_string(made++));
  }
  void unpack(const std::filesystem::path& text);

  std::filesystem::path folder_;
};

// "amdgpu_5_15" of ".../amdgpu_5.15.tree": fit for the name of a test.
inline std::string test_name_of(const std::filesystem::path& tree) {
  std::string name = tree.stem().string();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

inline std::vector<std::filesystem::path> RecordedTree::files() const {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    if (entry.is_regular_file() && !entry.is_symlink()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

inline void RecordedTree::unpack(const std::filesystem::path& text) {
  constexpr std::string_view kArrow = " -> ";
  std::ifstream in(text);
  VRAM_CHECK(in.is_open());
  std::ofstream file;
  for (std::string line; std::getline(in, line);) {
    const auto arrow = line.find(kArrow);
    if (line.empty() || line.starts_with('#')) {
      continue;
    } else if (line.starts_with('\t')) {
      file << line.substr(1) << '\n';
    } else if (arrow != std::string::npos) {
      link(line.substr(0, arrow), line.substr(arrow + kArrow.size()));
    } else {
      write(line, "");
      file = std::ofstream(folder_ / line, std::ios::binary);
    }
  }
}

}  // namespace vram::gpu

namespace vram::gpu::drm {

// Recorded: Drm on the files of a real machine (tests/data/recorded_gpus; its README names the
// source of each and what was added). Use it from one thread at a time.
class Recorded {
 public:
  explicit Recorded(const std::string& name)
      : tree_(data_path("recorded_gpus/") + name + ".tree"), drm_(Drm::open(tree_.roots())) {}

  [[nodiscard]] const RecordedTree& tree() const { return tree_; }
  [[nodiscard]] const Drm& drm() const { return drm_; }
  [[nodiscard]] uint32_t devices() const { return drm_.device_count().value(); }
  [[nodiscard]] DeviceSample sample(uint32_t index = 0) const { return drm_.sample(index); }
  [[nodiscard]] std::vector<DeviceProcess> processes(uint32_t index = 0) const {
    return drm_.sample(index).processes.value();
  }
  // Of the one device's one process.
  [[nodiscard]] DeviceProcess process() const {
    EXPECT_EQ(devices(), 1u);
    const auto found = processes();
    EXPECT_THAT(found, ::testing::SizeIs(1));
    return found.empty() ? DeviceProcess{} : found.front();
  }

 private:
  RecordedTree tree_;
  Drm drm_;
};

inline void expect_memory_unknown(const DeviceSample& sample) {
  EXPECT_EQ(sample.memory.total_bytes, std::nullopt);
  EXPECT_EQ(sample.memory.used_bytes, std::nullopt);
  EXPECT_EQ(sample.memory.free_bytes, std::nullopt);
  EXPECT_EQ(sample.host_memory.total_bytes, std::nullopt);
}

}  // namespace vram::gpu::drm
