// NVIDIA's error reports (Xids) in the kernel's log.
#include "gpu/nvml/xids.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

namespace vram::doctor {
namespace {

using gpu::nvml::XidMeaning;
using gpu::nvml::XidSeverity;

constexpr XidMeaning kUnknown = {0, XidSeverity::kProgram, "a report of NVIDIA's driver",
                                 "see NVIDIA's list of Xid errors"};

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
          fmt::format("Xid {} of the GPU at {}: {} ({} in the kernel's log)", logged.xid,
                      printable(logged.pci_id), meaning.what, counted(logged.count, "time")),
          severity == Severity::kNote ? "It is the program's fault, as a rule, and not the GPU's."
                                      : "It may be over: the log goes back to the machine's start.",
          {std::string(meaning.then), {as_root(facts, "dmesg -T | grep -i xid")}},
          {printable(logged.last)}};
}

}  // namespace

Findings check_xids(const MachineFacts& facts) {
  Findings findings;
  if (facts.platform.is_wsl || !nvml_works(facts)) {
    if (!facts.xids) return {};
  } else if (!facts.xids) {
    findings.push_back({"health.xid_unknown",
                        Severity::kNote,
                        "whether the GPUs had faults before is not known",
                        "NVML tells of faults (Xids) while it is listened to; those before are in "
                        "the kernel's log, which this user may not read.",
                        {facts.container.is_inside ? place(facts) : "read it as root",
                         {"sudo dmesg -T | grep -i xid"}}});
    return findings;
  }
  for (const LoggedXid& logged : *facts.xids) findings.push_back(reported(facts, logged));
  return findings;
}

}  // namespace vram::doctor
