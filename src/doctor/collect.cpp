#include "doctor/collect.hpp"

#include "base/text.hpp"
#include "gpu/drm/files.hpp"
#include "watch/reclaim.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace vram::doctor {
namespace {

constexpr const char* kSharedMemory = "/dev/shm";

std::vector<FolderFacts> read_boards(const Tree& tree, const ProcessFacts& process) {
  const auto named = process.environment.find("VRAM_BOARD");
  std::vector<FolderFacts> boards;
  for (const std::string& path :
       watch::board_folders(named == process.environment.end() ? "" : named->second)) {
    FolderFacts folder = tree.folder(path);
    if (folder.exists) boards.push_back(std::move(folder));
  }
  return boards;
}

}  // namespace

MachineFacts collect(const std::string& root, Pid pid) {
  const Tree tree(root);
  const std::string who = pid ? std::to_string(*pid) : "self";
  MachineFacts facts;
  facts.gpus = read_gpus(tree);
  facts.platform = read_platform(tree);
  facts.nvidia = read_nvidia(tree, facts.platform.kernel);
  facts.drm = read_drm(tree);
  const bool has_amd = std::ranges::count(facts.drm, "amdgpu", &DrmFacts::driver) > 0;
  if (has_amd) facts.kfd = tree.node("/dev/kfd");
  facts.process = read_process(tree, who);
  facts.process.pid = pid;
  facts.container = read_container(tree, who, facts.process);
  facts.mps = read_mps(tree, facts.process);
  facts.shared_memory = tree.folder(kSharedMemory);
  facts.boards = read_boards(tree, facts.process);
  facts.xids = read_xids(tree);
  return facts;
}

namespace text = gpu::drm;

Tree::Tree(std::string root) : root_(std::move(root)) {
  while (root_.ends_with('/')) root_.pop_back();
}

std::string Tree::at(std::string_view path) const { return root_ + std::string(path); }

std::optional<std::string> Tree::read(const std::string& path, size_t max_bytes) const {
  const int file = open(at(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return std::nullopt;
  std::string bytes(max_bytes, '\0');
  size_t size = 0;
  ssize_t got = 1;
  while (size < max_bytes && got > 0) {
    got = ::read(file, bytes.data() + size, max_bytes - size);
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0)
      size += static_cast<size_t>(got);
  }
  close(file);
  if (got < 0 && size == 0) return std::nullopt;
  bytes.resize(size);
  return bytes;
}

std::string Tree::line(const std::string& path) const {
  const std::string bytes = read(path).value_or("");
  return std::string(trimmed(std::string_view(bytes).substr(0, bytes.find('\n'))));
}

std::optional<uint64_t> Tree::number(const std::string& path) const {
  return text::as_number(line(path));
}

bool Tree::exists(const std::string& path) const {
  struct stat facts{};
  return stat(at(path).c_str(), &facts) == 0;
}

std::string Tree::link(const std::string& path) const {
  std::string target(4096, '\0');
  const ssize_t size = readlink(at(path).c_str(), target.data(), target.size());
  target.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return target;
}

std::vector<std::string> Tree::names(const std::string& folder) const {
  return gpu::drm::Files().names_in(at(folder));
}

// "render:x:992:ann,bob"
std::optional<std::string> Tree::group_of(uint32_t gid) const {
  const std::string groups = read("/etc/group", size_t{1} << 20).value_or("");
  std::optional<std::string> name;
  text::for_each_line(groups, [&](std::string_view line) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (name || first == std::string_view::npos || second == std::string_view::npos) return;
    const std::string_view rest = line.substr(second + 1);
    if (text::as_number(rest.substr(0, rest.find(':'))) == gid) name = line.substr(0, first);
  });
  return name;
}

DeviceNode Tree::node(const std::string& path) const {
  DeviceNode node{path};
  struct stat facts{};
  if (stat(at(path).c_str(), &facts) != 0) return node;
  node.exists = true;
  node.mode = facts.st_mode & 07777U;
  node.group = group_of(facts.st_gid);
  // Opening it might wake a GPU; this asks for the permissions, and for the control group's.
  if (access(at(path).c_str(), R_OK | W_OK) != 0) node.refused = errno;
  return node;
}

FolderFacts Tree::folder(const std::string& path) const {
  FolderFacts folder{path};
  struct stat facts{};
  if (stat(at(path).c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return folder;
  folder.exists = true;
  folder.uid = facts.st_uid;
  folder.mode = facts.st_mode & 07777U;
  folder.is_writable = access(at(path).c_str(), W_OK | X_OK) == 0;
  struct statvfs space{};
  if (statvfs(at(path).c_str(), &space) == 0) {
    folder.total_bytes = uint64_t{space.f_blocks} * space.f_frsize;
    folder.free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  }
  return folder;
}

}  // namespace vram::doctor
