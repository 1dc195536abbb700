// The GPUs' health, from one sample.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "gpu/nvml/nvml_events.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

std::string where(const MachineFacts& facts) {
  return facts.container.is_inside ? " (" + place(facts) + ")" : std::string();
}

Repair restart(const MachineFacts& facts) {
  return {tr("end all programs on its GPUs, then restart the machine") + where(facts),
          {on_host(facts, "reboot")}};
}

Repair reset(const MachineFacts& facts, const watch::Device& device) {
  const auto command = nvidia_smi(device, "--gpu-reset");
  if (!command) return restart(facts);
  return {tr("end all programs on it, then reset it; a restart of the machine does the same") +
              where(facts),
          {on_host(facts, *command), on_host(facts, "reboot")}};
}

std::vector<std::string> requested_for(const watch::Device& device, std::string_view what) {
  const auto command = nvidia_smi(device, what);
  return command ? std::vector<std::string>{*command} : std::vector<std::string>();
}

// What the driver asks for, and no more.
Repair recovery(const MachineFacts& facts, const watch::Device& device, std::string_view action) {
  if (action == "reboot") return restart(facts);
  if (action == "drain peer to peer")
    return {
        tr("end the programs that use it together with other GPUs (NVLink, peer to peer), and see "
           "whether the driver still asks for it") +
            where(facts),
        requested_for(device, "-q")};
  return reset(facts, device);
}

void add_trouble(const MachineFacts& facts, const watch::Device& device, Findings& findings) {
  if (!device.sample.trouble) return;
  findings.push_back(
      {"health.error", Severity::kBad,
       trf("{} does not answer: {}", name_of(device), printable(*device.sample.trouble)),
       tr("Programs can't use it. The others go on."), reset(facts, device)});
}

void add_recovery(const MachineFacts& facts, const watch::Device& device, Findings& findings) {
  const std::string action = device.health.recovery_action.value_or("none");
  if (action == "none" || action.empty()) return;
  findings.push_back(
      {"health.recovery", Severity::kBad,
       trf("the driver asks for a recovery of {}: {}", name_of(device), printable(action)),
       tr("After a fault it considers the GPU unreliable until that is done."),
       recovery(facts, device, action)});
}

void add_ecc(const MachineFacts& facts, const watch::Device& device, Findings& findings) {
  const uint64_t errors = device.health.ecc_since_boot.uncorrected.value_or(0);
  if (errors == 0) return;
  Repair repair = reset(facts, device);
  repair.how += tr("; then test it, and have it replaced when errors come again");
  for (std::string& command : requested_for(device, "-q -d ECC,ROW_REMAPPER"))
    repair.commands.push_back(std::move(command));
  findings.push_back(
      {"health.ecc", Severity::kBad,
       trf("{} in the memory of {} since the driver was loaded",
           counted(errors, "uncorrected error"), name_of(device)),
       tr("Programs that touched that memory were ended (Xid 48, 94, 95), or computed with wrong "
          "values where ECC does not reach."),
       std::move(repair)});
}

void add_rows(const MachineFacts& facts, const watch::Device& device, Findings& findings) {
  const auto& rows = device.health.remapped_rows;
  if (!rows) return;
  if (rows->has_failed)
    findings.push_back({"health.row_remap_failed",
                        Severity::kBad,
                        trf("{} has a bad row of memory and no spare one for it", name_of(device)),
                        tr("Errors will come again at that place: this GPU is to be replaced "
                           "(NVIDIA's criterion for a return)."),
                        {tr("take it out of use, and ask for a replacement with this report"),
                         requested_for(device, "-q -d ROW_REMAPPER")}});
  if (rows->is_pending)
    findings.push_back({"health.row_remap_pending", Severity::kWarning,
                        trf("{} replaces a bad row of memory at its next reset", name_of(device)),
                        tr("Programs go on unaffected: the driver keeps that memory from them. The "
                           "reset gives them "
                           "as much as before."),
                        reset(facts, device)});
}

void add_pages(const MachineFacts& facts, const watch::Device& device, Findings& findings) {
  const gpu::RetiredPages pages = device.health.retired_pages.value_or(gpu::RetiredPages{});
  if (pages.has_failed.value_or(false))
    findings.push_back(
        {"health.page_retirement_failed", Severity::kBad,
         trf("{} has a bad page of memory that could not be taken out of use", name_of(device)),
         tr("The driver may give that page to a program again, and errors with it."),
         reset(facts, device)});
  if (pages.is_pending.value_or(false))
    findings.push_back(
        {"health.page_retirement_pending", Severity::kWarning,
         trf("{} has a bad page of memory that waits to be taken out of use", name_of(device)),
         tr("Until then programs may be given the bad page again."), reset(facts, device)});
}

// A power cap at full load is how GPUs are meant to run; these are not.
bool needs_attention(const std::string& reason) {
  return reason == "hardware slowdown" || reason == "software thermal" ||
         reason == "hardware thermal" || reason == "power brake";
}

void add_throttling(const watch::Device& device, Findings& findings) {
  std::vector<std::string> reasons =
      device.sample.throttle_reasons.value_or(std::vector<std::string>());
  std::erase_if(reasons, [](const std::string& reason) { return !needs_attention(reason); });
  if (reasons.empty()) return;
  const auto celsius = device.sample.celsius;
  const bool is_power = std::ranges::count(reasons, "power brake") > 0;
  findings.push_back(
      {"health.throttling",
       Severity::kWarning,
       trf("{} is held back now: {}{}", name_of(device), fmt::join(reasons, ", "),
           celsius ? fmt::format(" ({} C)", *celsius) : ""),
       is_power
           ? tr("The power supply or the rack asks for less: kernels run slower than they could, "
                "in lockstep jobs on all GPUs.")
           : tr("It is too hot for its full clock: kernels run slower than they could, in "
                "lockstep jobs on all GPUs."),
       {is_power
            ? tr("look at the power supply, its cables and the rack's limit")
            : tr("look at fans, dust, air flow and the room; a lower power limit keeps the clock "
                 "steady until then"),
        requested_for(device, "-q -d PERFORMANCE,TEMPERATURE,POWER")}});
}

void add_bar(const watch::Device& device, Findings& findings) {
  constexpr uint64_t kClassicBar = 256 * kMiB;
  const auto bar = device.health.bar1 ? device.health.bar1->total_bytes : std::nullopt;
  const auto memory = device.sample.memory.total_bytes;
  if (!bar || !memory || *bar > kClassicBar || *memory <= *bar) return;
  findings.push_back(
      {"health.small_bar",
       Severity::kNote,
       trf("the host reaches {} of the {} of {} at a time", format_bytes(*bar),
           format_bytes(*memory), name_of(device)),
       tr("Direct copies between GPUs and from the network or disks (GPUDirect) go "
          "through that window; ordinary copies don't."),
       {tr("switch on 'Resizable BAR' and 'Above 4G decoding' in the firmware, where "
           "the machine has them"),
        {}}});
}

bool is_well(const watch::Device& device) {
  return !device.sample.trouble && !device.sample.is_asleep;
}

}  // namespace

Findings check_health(const MachineFacts& facts) {
  Findings findings;
  for (const watch::Device& device : devices(facts)) {
    add_trouble(facts, device, findings);
    add_recovery(facts, device, findings);
    add_ecc(facts, device, findings);
    add_rows(facts, device, findings);
    add_pages(facts, device, findings);
    add_throttling(device, findings);
    add_bar(device, findings);
  }
  const auto& all = devices(facts);
  const bool is_fine = std::ranges::none_of(
      findings, [](const Finding& finding) { return finding.severity < Severity::kNote; });
  if (is_fine && !all.empty() && std::ranges::all_of(all, is_well))
    findings.push_back(
        {"health.good", Severity::kGood,
         trf("{}: no trouble, no memory errors known, not held back", counted(all.size(), "GPU"))});
  return findings;
}

// NVIDIA's error reports (Xids) in the kernel's log.

namespace {

using gpu::nvml::XidMeaning;
using gpu::nvml::XidSeverity;

constexpr XidMeaning kUnknown = {0, XidSeverity::kProgram, tr_later("a report of NVIDIA's driver"),
                                 tr_later("see NVIDIA's list of Xid errors")};

Severity severity_of(XidSeverity gravity) {
  switch (gravity) {
    case XidSeverity::kProgram:
      return Severity::kNote;
    case XidSeverity::kWatch:
      return Severity::kWarning;
    case XidSeverity::kBroken:
      break;
  }
  return Severity::kBad;
}

Finding reported(const MachineFacts& facts, const LoggedXid& logged) {
  const XidMeaning* const known = gpu::nvml::meaning_of_xid(logged.xid);
  const XidMeaning& meaning = known == nullptr ? kUnknown : *known;
  const Severity severity = severity_of(meaning.gravity);
  return {"health.xid",
          severity,
          trf("Xid {} of the GPU at {}: {} ({} in the kernel's log)", logged.xid,
              printable(logged.pci_id), tr(meaning.what), counted(logged.count, "time")),
          severity == Severity::kNote
              ? tr("It is the program's fault, as a rule, and not the GPU's.")
              : tr("It may be over: the log goes back to the machine's start."),
          {std::string(tr(meaning.then)), {as_root(facts, "dmesg -T | grep -i xid")}},
          {printable(logged.last)}};
}

}  // namespace

Findings check_xids(const MachineFacts& facts) {
  Findings findings;
  if (facts.platform.is_wsl || !nvml_works(facts)) {
    if (!facts.xids) return {};
  } else if (!facts.xids) {
    findings.push_back(
        {"health.xid_unknown",
         Severity::kNote,
         tr("whether the GPUs had faults before is not known"),
         tr("NVML reports faults (Xids) while a program listens; those before are in "
            "the kernel's log, which this user may not read."),
         {facts.container.is_inside ? place(facts) : tr("read it as root"),
          {"sudo dmesg -T | grep -i xid"}}});
    return findings;
  }
  for (const LoggedXid& logged : *facts.xids) findings.push_back(reported(facts, logged));
  return findings;
}

}  // namespace vram::doctor
