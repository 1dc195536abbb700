// Processes that hold GPU memory for nothing.
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

std::string held(const watch::Holder& holder) {
  return holder.held_bytes ? format_bytes(*holder.held_bytes) : "GPU memory";
}

// Of the GPUs on which the driver names it, and of no other.
std::vector<std::string> resets(const MachineFacts& facts, const watch::Holder& holder) {
  std::vector<std::string> commands;
  if (!facts.snapshot) return commands;
  for (const watch::Process& process : facts.snapshot->processes) {
    if (process.facts->pid != holder.facts.pid) continue;
    for (const watch::Use& use : process.uses) {
      const auto command = nvidia_smi(facts.snapshot->devices.at(use.device), "--gpu-reset");
      if (command) commands.push_back(as_root(facts, *command));
    }
  }
  return commands;
}

Finding zombie(const MachineFacts& facts, const watch::Holder& holder) {
  std::vector<std::string> commands = resets(facts, holder);
  commands.insert(commands.begin(), as_root(facts, "fuser -v /dev/nvidia*"));
  return {"health.zombie",
          Severity::kWarning,
          fmt::format("process {} is gone and still holds {}", holder.facts.pid, held(holder)),
          "The driver names it, and the kernel knows no such process: a child that shares its GPU "
          "context may live on, or the driver has not let go.",
          {"find who has the device open and end it; what then stays goes with a reset of the GPU",
           std::move(commands)}};
}

Finding idle(const watch::Holder& holder) {
  const std::string command = printable(holder.facts.command.value_or("unknown command"));
  Finding finding{
      "health.idle_holder",
      Severity::kNote,
      fmt::format("process {} holds {} and does nothing", holder.facts.pid, held(holder)),
      "One look can't tell for how long. A notebook whose kernel is left open looks "
      "like this.",
      {"end it if it is not needed", {fmt::format("kill {}", holder.facts.pid)}},
      {command}};
  if (holder.can_be_asked() && holder.cached_bytes().value_or(0) > 0)
    finding.repair = {"ask it to give back what it caches",
                      {fmt::format("vram free {}", holder.facts.pid)}};
  return finding;
}

}  // namespace

Findings check_holders(const MachineFacts& facts) {
  if (!facts.holders) return {};
  Findings findings;
  // Seen from another pid namespace everybody is gone.
  const bool sees_all = facts.container.is_host_pid_namespace.value_or(true);
  for (const watch::Holder& holder : facts.holders->holders) {
    if (holder.is_gone && sees_all) findings.push_back(zombie(facts, holder));
    if (!holder.is_gone && holder.is_idle) findings.push_back(idle(holder));
  }
  return findings;
}

}  // namespace vram::doctor
