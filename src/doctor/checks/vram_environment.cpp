// vram's own variables.
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> kNames = {
      "VRAM_BOARD",        "VRAM_CUDA_DRIVER",  "VRAM_DRM_ROOT",     "VRAM_LIBRARY",
      "VRAM_LIMIT",        "VRAM_NVML",         "VRAM_POOL",         "VRAM_RECORD",
      "VRAM_RECORD_FIRST", "VRAM_RECORD_LIMIT", "VRAM_RECORD_SINCE", "VRAM_RECORD_STACKS",
      "VRAM_ROCM_SMI",     "VRAM_SAID",         "VRAM_STARTUP",      "VRAM_STRICT"};
  return kNames;
}

}  // namespace

Findings check_vram_environment(const MachineFacts& facts) {
  Findings findings;
  for (const auto& [name, value] : facts.process.environment) {
    if (!name.starts_with("VRAM_") || std::ranges::count(known_names(), name) > 0) continue;
    const std::string_view meant = nearest(name, known_names());
    if (meant.empty()) continue;  // somebody else's
    findings.push_back(
        {"vram.unknown_variable",
         Severity::kWarning,
         fmt::format("vram has no variable {}; {} may be meant", printable(name), meant),
         "It does nothing.",
         {"", {fmt::format("export {}=…", meant)}},
         {shown(facts, name)}});
  }
  for (const std::string name : {"VRAM_NVML", "VRAM_ROCM_SMI", "VRAM_CUDA_DRIVER"}) {
    if (variable(facts, name).value_or("").empty()) continue;
    findings.push_back({"vram.other_library",
                        Severity::kNote,
                        fmt::format("{} names another library than the driver's", name),
                        "What vram says of the GPUs comes from there.",
                        {"", {"unset " + name}},
                        {shown(facts, name)}});
  }
  return findings;
}

}  // namespace vram::doctor
