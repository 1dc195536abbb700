// NVIDIA's error reports (Xids) in the kernel's log.
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::doctor {
namespace {

struct Meaning {
  uint32_t xid;
  Severity severity;
  std::string_view what;
  std::string_view then;  // what to do
};
constexpr std::array kMeanings = {
    Meaning{13, Severity::kNote, "a program's kernel failed (often an index out of bounds)",
            "look for the fault in the program: compute-sanitizer finds it"},
    Meaning{31, Severity::kNote, "a program touched memory that it does not have",
            "look for the fault in the program: compute-sanitizer finds it"},
    Meaning{43, Severity::kNote, "a program's work was stopped after a fault",
            "see its own errors"},
    Meaning{45, Severity::kNote, "work was cleaned up after a program ended", "nothing to do"},
    Meaning{48, Severity::kBad, "an uncorrectable memory error",
            "reset the GPU; when it comes again, have it replaced"},
    Meaning{62, Severity::kBad, "the GPU's own processor halted", "reset the GPU"},
    Meaning{63, Severity::kWarning, "a bad row of memory is to be replaced",
            "reset the GPU when it is idle"},
    Meaning{64, Severity::kBad, "a bad row of memory could not be replaced",
            "have the GPU replaced"},
    Meaning{74, Severity::kBad, "an NVLink error",
            "reset the GPU; check the links: nvidia-smi "
            "nvlink -e"},
    Meaning{79, Severity::kBad, "the GPU fell off the bus",
            "restart; check power, seat and temperature"},
    Meaning{92, Severity::kWarning, "many corrected memory errors",
            "watch it; have it replaced if "
            "it goes on"},
    Meaning{94, Severity::kWarning, "a memory error that hit one program",
            "restart that program; reset the GPU when it is idle"},
    Meaning{95, Severity::kBad, "a memory error that may have hit all programs",
            "end all programs on the GPU and reset it"},
    Meaning{109, Severity::kWarning, "work on the GPU did not end in time",
            "update the driver; see which program it was"},
    Meaning{119, Severity::kBad, "the GPU's system processor did not answer",
            "reset the GPU; update the driver"},
    Meaning{120, Severity::kBad, "the GPU's system processor failed",
            "reset the GPU; update the driver"}};

Meaning meaning_of(uint32_t xid) {
  const auto known = std::ranges::find(kMeanings, xid, &Meaning::xid);
  return known == kMeanings.end() ? Meaning{xid, Severity::kNote, "a report of NVIDIA's driver",
                                            "see NVIDIA's list of Xid errors"}
                                  : *known;
}

Finding reported(const MachineFacts& facts, const LoggedXid& logged) {
  const Meaning meaning = meaning_of(logged.xid);
  return {"health.xid",
          meaning.severity,
          fmt::format("Xid {} of the GPU at {}: {} ({} in the kernel's log)", logged.xid,
                      printable(logged.pci_id), meaning.what, counted(logged.count, "time")),
          meaning.severity == Severity::kNote
              ? "It is the program's fault, as a rule, and not the GPU's."
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
