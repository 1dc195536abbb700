#include "doctor/collect.hpp"

#include "doctor/facts/readers.hpp"
#include "watch/reclaim.hpp"

#include <algorithm>
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

}  // namespace vram::doctor
