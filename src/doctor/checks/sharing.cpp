// How programs share a GPU: MPS, compute modes, MIG; and whether the driver stays loaded.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

constexpr std::string_view kPipeFolder = "/tmp/nvidia-mps";  // the default

void add_mps_limits(const MachineFacts& facts, Findings& findings) {
  for (const std::string name :
       {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}) {
    const auto value = variable(facts, name);
    if (!value || value->empty() || *value == "100") continue;
    const bool is_memory = name.find("MEM_LIMIT") != std::string::npos;
    findings.push_back(
        {"mps.limits",
         Severity::kWarning,
         trf("MPS limits {} of this program",
             is_memory ? tr("the GPU memory") : tr("the share of the GPU's processors")),
         is_memory
             ? tr("Under MPS allocations beyond it fail as out of memory, while the GPU may have "
                  "plenty.")
             : tr("Under MPS its kernels run on that part of the GPU only, however idle the rest "
                  "is."),
         {tr("take it away if it is not meant"), {"unset " + name}},
         {shown(facts, name)}});
  }
}

void add_stale_pipe(const MachineFacts& facts, Findings& findings) {
  // Elsewhere the daemon may run where it can't be seen.
  const bool sees_all = facts.container.is_host_pid_namespace.value_or(false);
  if (!facts.mps.has_pipe || facts.mps.processes != 0U || !sees_all) return;
  findings.push_back(
      {"mps.stale_pipe",
       Severity::kWarning,
       tr("MPS's folder is there, and its daemon is not running"),
       tr("CUDA programs look for the daemon in this folder first; a pipe without a daemon makes "
          "them wait or fail (CUDA_ERROR_MPS_CONNECTION_FAILED)."),
       {tr("start it again, or remove what it left"),
        facts.mps.pipe_folder == kPipeFolder
            ? std::vector<std::string>{"nvidia-cuda-mps-control -d",
                                       as_root(facts, fmt::format("rm -r {}", kPipeFolder))}
            : std::vector<std::string>{"nvidia-cuda-mps-control -d",
                                       "unset CUDA_MPS_PIPE_DIRECTORY"}},
       {printable(facts.mps.pipe_folder) + "/control"}});
}

void add_host_command(const MachineFacts& facts, const watch::Device& device, std::string_view what,
                      std::vector<std::string>& commands) {
  if (const auto command = nvidia_smi(device, what)) commands.push_back(on_host(facts, *command));
}

void add_compute_mode(const MachineFacts& facts, const watch::Device& device, Findings& findings) {
  const std::string mode = device.health.compute_mode.value_or("");
  const bool is_exclusive = mode == "exclusive process" || mode == "exclusive thread";
  std::vector<std::string> commands;
  add_host_command(facts, device, "-c DEFAULT", commands);
  if (mode == "prohibited") {
    findings.push_back(
        {"mps.prohibited",
         Severity::kBad,
         trf("{} takes no CUDA program (compute mode prohibited)", name_of(device)),
         tr("Every program that tries gets CUDA_ERROR_NO_DEVICE or 'devices "
            "unavailable', or skips this GPU."),
         {facts.container.is_inside ? place(facts) : tr("let programs in"), std::move(commands)}});
  } else if (is_exclusive && facts.mps.processes.value_or(0) == 0) {
    commands.emplace_back("nvidia-cuda-mps-control -d");
    findings.push_back(
        {"mps.exclusive_without",
         Severity::kWarning,
         trf("{} takes one CUDA process at a time (compute mode {}), and MPS is not running",
             name_of(device), mode),
         tr("A second process fails with 'all CUDA-capable devices are busy or unavailable', even "
            "where memory is free: a notebook's kernel that is still open is enough."),
         {tr("let several in, or start MPS to share it"), std::move(commands)}});
  }
}

void add_persistence(const MachineFacts& facts, Findings& findings) {
  const auto is_off = [](const watch::Device& device) {
    return device.identity.vendor == gpu::Vendor::kNvidia && device.health.is_persistent == false;
  };
  const bool has_display = facts.platform.has_display.value_or(false);  // which keeps it loaded
  if (has_display || facts.container.is_inside || facts.platform.is_wsl || facts.platform.board ||
      std::ranges::none_of(devices(facts), is_off))
    return;
  findings.push_back(
      {"persistence.off",
       Severity::kWarning,
       tr("the driver releases the GPUs whenever no program uses them (persistence is off)"),
       tr("No display holds it, so each first program waits for it to start again: seconds, more "
          "with "
          "many GPUs, and monitors pay it at each sample. ECC counts since boot and application "
          "clocks "
          "are lost each time."),
       {tr("keep it loaded: by its daemon, or until the next start"),
        {on_host(facts, "systemctl enable --now nvidia-persistenced"),
         on_host(facts, "nvidia-smi -pm 1")}}});
}

void add_mig(const MachineFacts& facts, const watch::Device& device, Findings& findings) {
  const auto& parts = device.health.mig_instances;
  if (!device.health.is_mig.value_or(false)) return;
  const auto visible = variable(facts, "CUDA_VISIBLE_DEVICES");
  std::vector<std::string> commands;
  if (const auto name = nvidia_name(device))
    commands.push_back(on_host(facts, fmt::format("nvidia-smi mig -i {} -cgi 0 -C", *name)));
  add_host_command(facts, device, tr("-mig 0"), commands);
  if (parts.empty() && !facts.container.is_inside) {
    findings.push_back(
        {"mig.no_instances",
         Severity::kBad,
         trf("{} is in MIG mode and has no instances", name_of(device)),
         tr("CUDA uses instances only, so no program can use this GPU."),
         {tr("make one over the whole GPU, or switch MIG off"), std::move(commands)}});
  } else if (parts.size() > 1 && (!visible || !visible->starts_with("MIG-"))) {
    const std::string uuid = printable(parts.front().uuid.value_or("MIG-UUID"));
    findings.push_back(
        {"mig.one_visible",
         Severity::kNote,
         trf("{} is in {} MIG instances; a CUDA program uses the first that it sees",
             name_of(device), parts.size()),
         tr("A process works on one instance. Without a name it is the first one, so programs meet "
            "there while the others idle."),
         {tr("give each program its own; nvidia-smi -L lists them"),
          {"export CUDA_VISIBLE_DEVICES=" + uuid}}});
  }
}

}  // namespace

Findings check_sharing(const MachineFacts& facts) {
  Findings findings;
  add_mps_limits(facts, findings);
  add_stale_pipe(facts, findings);
  for (const watch::Device& device : devices(facts)) {
    add_compute_mode(facts, device, findings);
    add_mig(facts, device, findings);
  }
  add_persistence(facts, findings);
  return findings;
}

// Processes that hold GPU memory for nothing.

namespace {

std::string held(const watch::Holder& holder) {
  return holder.held_bytes ? format_bytes(*holder.held_bytes) : tr("GPU memory");
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
  commands.insert(commands.begin(), as_root(facts, tr("fuser -v /dev/nvidia*")));
  return {
      "health.zombie",
      Severity::kWarning,
      trf("process {} is gone and still holds {}", holder.facts.pid, held(holder)),
      tr("The driver names it, and the kernel knows no such process: a child that shares its GPU "
         "context may live on, or the driver has not let go."),
      {tr("find who has the device open and end it; what then stays goes with a reset of the GPU"),
       std::move(commands)}};
}

Finding idle(const watch::Holder& holder) {
  const std::string command = printable(holder.facts.command.value_or(tr("unknown command")));
  Finding finding{
      "health.idle_holder",
      Severity::kNote,
      trf("process {} holds {} and does nothing", holder.facts.pid, held(holder)),
      tr("One sample does not show for how long. A notebook whose kernel is left open looks "
         "like this."),
      {tr("end it if it is not needed"), {fmt::format("kill {}", holder.facts.pid)}},
      {command}};
  if (holder.can_be_asked() && holder.cached_bytes().value_or(0) > 0)
    finding.repair = {tr("ask it to give back what it caches"),
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
