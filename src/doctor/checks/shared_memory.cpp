// /dev/shm: where data loaders pass batches on, and where vram's board lies.
#include "base/bytes.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

namespace vram::doctor {
namespace {

constexpr uint64_t kDockersDefault = 64 * kMiB;

Finding unusable(const MachineFacts& facts) {
  const FolderFacts& folder = facts.shared_memory;
  // A new one over it would hide what others have there.
  const Repair repair =
      folder.exists ? Repair{"let everybody write to it", {as_root(facts, "chmod 1777 /dev/shm")}}
                    : Repair{"mount it, for everybody to write",
                             {as_root(facts, "mkdir -p /dev/shm"),
                              as_root(facts, "mount -t tmpfs -o mode=1777 tmpfs /dev/shm")}};
  return {"permissions.shared_memory", Severity::kBad,
          fmt::format("{} {}", folder.path,
                      folder.exists ? "may not be written by this user" : "is not there"),
          "PyTorch's data loaders pass batches through it, NCCL speaks between GPUs through it, "
          "and programs post their figures for vram on it.",
          repair};
}

Finding small(const MachineFacts& facts) {
  return {"container.small_shm",
          Severity::kWarning,
          fmt::format("{} has {} only", facts.shared_memory.path,
                      format_bytes(*facts.shared_memory.total_bytes)),
          "That is the container's default. A batch of 256 images of 224 x 224 as 32-bit floats "
          "takes 147 MiB: DataLoader workers die with 'Bus error' or 'insufficient shared memory', "
          "and NCCL fails to start.",
          {"start the container with more of it, or with the host's",
           {"docker run --shm-size=16g …", "docker run --ipc=host …"}}};
}

Finding board_folder(const MachineFacts& facts, const FolderFacts& folder) {
  // A folder that an environment names may be anything: none to change rights of.
  const bool is_named = variable(facts, "VRAM_BOARD").has_value();
  const bool is_ours = folder.uid == facts.process.uid;
  return {"permissions.board_folder",
          Severity::kWarning,
          fmt::format("the board's folder {} is {}", folder.path,
                      is_ours ? "open to other users" : "another user's"),
          "vram's programs post on it only where nobody else may write (mode 0700, their own): "
          "they won't, and vram status and free won't see what they cache.",
          is_named ? Repair{"let vram choose the folder, or name one that is not there yet",
                            {"unset VRAM_BOARD"}}
                   : Repair{"close it, or remove it where it is another user's",
                            {as_root(facts, "chmod 700 " + folder.path)}},
          {fmt::format("mode {:04o}", folder.mode.value_or(0))}};
}

}  // namespace

Findings check_shared_memory(const MachineFacts& facts) {
  Findings findings;
  const FolderFacts& shared = facts.shared_memory;
  if (!shared.path.empty() && (!shared.exists || !shared.is_writable)) {
    findings.push_back(unusable(facts));
  } else if (facts.container.is_inside && shared.total_bytes &&
             *shared.total_bytes <= kDockersDefault) {
    findings.push_back(small(facts));
  }
  for (const FolderFacts& folder : facts.boards) {
    const bool is_open = (folder.mode.value_or(0) & 0077U) != 0;
    const bool is_anothers = folder.uid && facts.process.uid && folder.uid != facts.process.uid &&
                             facts.process.uid != 0U;  // root looks at everybody's
    if (is_open || is_anothers) findings.push_back(board_folder(facts, folder));
  }
  return findings;
}

}  // namespace vram::doctor
