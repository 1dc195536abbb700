// Limits of the process and of the host that stop GPU programs.
#include "base/bytes.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

namespace vram::doctor {
namespace {

constexpr uint64_t kFewFiles = 4096;
constexpr uint64_t kLittleLocked = kGiB;

void add_address_space(const MachineFacts& facts, Findings& findings) {
  const auto limit = facts.process.limits.address_space_bytes;
  if (!limit || !has_nvidia(facts)) return;
  findings.push_back(
      {"limits.address_space",
       Severity::kBad,
       fmt::format("the address space is limited to {} (ulimit -v)", format_bytes(*limit)),
       "CUDA reserves addresses for the memory of all GPUs and of the host together, without using "
       "them, and pools reserve more: programs fail at their start, or far from any real limit.",
       {"take the limit away, also in /etc/security/limits.conf or the batch system; limit memory "
        "by a control group instead",
        {"ulimit -v unlimited"}}});
}

void add_locked(const MachineFacts& facts, Findings& findings) {
  const auto limit = facts.process.limits.locked_bytes;
  if (!limit || *limit >= kLittleLocked || !facts.platform.has_infiniband || !has_nvidia(facts))
    return;
  findings.push_back(
      {"limits.locked_memory",
       Severity::kWarning,
       fmt::format("this machine has InfiniBand, and {} of memory may be locked (ulimit -l)",
                   format_bytes(*limit)),
       "RDMA locks what it registers. NCCL and UCX fail with 'Cannot allocate memory' in "
       "ibv_reg_mr, or fall back to slow ways.",
       {"allow it, for containers at their start and for users in /etc/security/limits.conf",
        {facts.container.is_inside ? std::string("docker run --ulimit memlock=-1 …")
                                   : "echo '* - memlock unlimited' | " +
                                         as_root(facts, "tee -a /etc/security/limits.conf"),
         "ulimit -l unlimited"}}});
}

void add_files(const MachineFacts& facts, Findings& findings) {
  const auto& limits = facts.process.limits;
  if (!limits.open_files || *limits.open_files >= kFewFiles) return;
  const uint64_t most = limits.max_open_files.value_or(65'536);
  findings.push_back(
      {"limits.open_files",
       Severity::kNote,
       fmt::format("{} files may be open at a time (ulimit -n)", *limits.open_files),
       "PyTorch's DataLoader has a descriptor open for each tensor on its way from a worker, and "
       "NCCL some for each connection: 'Too many open files' comes in the middle of training.",
       {"raise it before the program starts", {fmt::format("ulimit -n {}", most)}}});
}

void add_overcommit(const MachineFacts& facts, Findings& findings) {
  if (facts.platform.overcommit != 2U) return;
  findings.push_back(
      {"limits.overcommit",
       Severity::kWarning,
       "the kernel promises no more memory than there is (vm.overcommit_memory is 2)",
       "CUDA and allocators reserve far more than they use, and a worker that is forked counts as "
       "much as its parent: programs fail with 'Cannot allocate memory' while memory is free.",
       {"let the kernel judge, as is its default" +
            (facts.container.is_inside ? ", " + place(facts) : std::string()),
        {on_host(facts, "sysctl vm.overcommit_memory=0")}}});
}

void add_host_memory(const MachineFacts& facts, Findings& findings) {
  const auto host = facts.platform.memory_bytes;
  const uint64_t gpu = largest_memory(facts);
  const bool has_swap = facts.platform.swap_bytes.value_or(1) > 0;
  if (!host || gpu == 0 || *host + facts.platform.swap_bytes.value_or(0) >= gpu) return;
  findings.push_back(
      {"limits.host_memory",
       Severity::kNote,
       fmt::format("the host has {} of memory{}, the GPU {}", format_bytes(*host),
                   has_swap ? "" : " and no swap", format_bytes(gpu)),
       "A checkpoint that fills the GPU does not fit into the host at once, and offloading to it "
       "gains little.",
       {"load checkpoints piece by piece, or mapped from the file; more swap helps once",
        {"torch.load(path, mmap=True, map_location='cuda')"}}});
}

}  // namespace

Findings check_limits(const MachineFacts& facts) {
  Findings findings;
  add_address_space(facts, findings);
  add_locked(facts, findings);
  add_files(facts, findings);
  add_overcommit(facts, findings);
  add_host_memory(facts, findings);
  return findings;
}

}  // namespace vram::doctor
