// Does the driver have every GPU that the bus has?
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "gpu/drm/files.hpp"
#include "gpu/number_formats.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

Finding fell_off(const MachineFacts& facts, const PciGpu& gpu) {
  return {
      "driver.gpu_fell_off",
      Severity::kBad,
      trf("the GPU at {} fell off the bus", gpu.pci_id),
      tr("It answers nothing but ones (lspci shows 'rev ff'). Programs that used it are lost; it "
         "comes back with a restart at best. Heat, power (cables, the supply's peak load), a loose "
         "seat or a failing card are the usual reasons."),
      {tr("restart, switched off for a moment if possible; when it comes again, check power and "
          "seat, then the card"),
       {on_host(facts, "dmesg | grep -iE 'xid|aer|fallen'"), on_host(facts, "reboot")}}};
}

Finding missing(const MachineFacts& facts, size_t on_bus) {
  Finding finding{"driver.gpu_missing",
                  Severity::kBad,
                  trf("the driver sees {} of {}", facts.nvidia.nvml.devices.value_or(0),
                      counted(on_bus, "GPU")),
                  tr("The others are on the bus, and the driver gave up on them when it started or "
                     "since: the kernel's log says why."),
                  {tr("see what the driver says of them; often a restart brings them back"),
                   {on_host(facts, "dmesg | grep -i nvrm"), on_host(facts, "reboot")}}};
  for (const PciGpu* gpu : nvidia_gpus(facts))
    finding.evidence.push_back(gpu->pci_id + (gpu->is_gone ? tr(": does not answer") : ""));
  return finding;
}

std::string driver_in_words(const MachineFacts& facts) {
  const std::string version = driver_version(facts);
  const auto& is_open = facts.nvidia.is_open;
  return trf("NVIDIA's driver {}{}", version,
             !is_open   ? ""
             : *is_open ? tr(" (open kernel modules)")
                        : tr(" (proprietary kernel modules)"));
}

// Once for each kind of device.
void add_formats(const MachineFacts& facts, Findings& findings) {
  std::vector<std::string> named;
  for (const watch::Device& device : devices(facts)) {
    const auto& formats = gpu::tensor_core_formats(device.identity);
    if (!formats) continue;
    const std::string name =
        trf("{}, compute capability {}", printable(device.identity.name.value_or("GPU")),
            printable(device.identity.compute_capability.value_or("")));
    if (std::ranges::count(named, name) > 0) continue;
    named.push_back(name);
    findings.push_back({"driver.formats", Severity::kGood,
                        formats->empty()
                            ? trf("{}: no tensor cores, so half precision saves memory only", name)
                            : trf("{}: tensor cores for {}", name, fmt::join(*formats, ", "))});
  }
}

}  // namespace

Findings check_devices(const MachineFacts& facts) {
  Findings findings;
  const auto gpus = nvidia_gpus(facts);
  bool has_gone = false;
  for (const PciGpu& gpu : facts.gpus) {
    if (gpu.is_gone) findings.push_back(fell_off(facts, gpu));
    has_gone = has_gone || gpu.is_gone;
  }
  const size_t seen = facts.nvidia.nvml.devices.value_or(0);
  // In a container the bus shows all GPUs of the host.
  if (nvml_works(facts) && !facts.container.is_inside && seen < gpus.size() && !has_gone)
    findings.push_back(missing(facts, gpus.size()));
  const std::string& version = facts.nvidia.cuda.version;
  if (nvml_works(facts) && cuda_works(facts) && findings.empty()) {
    findings.push_back({"driver.good", Severity::kGood,
                        trf("{}: NVML counts {}, CUDA{} starts", driver_in_words(facts),
                            counted(seen, "GPU"), version.empty() ? "" : " " + version)});
  }
  add_formats(facts, findings);
  return findings;
}

// What CUDA_VISIBLE_DEVICES leaves visible.

namespace {

constexpr const char* kName = "CUDA_VISIBLE_DEVICES";

std::vector<std::string> words_in(std::string_view list) {
  std::vector<std::string> words;
  for (;;) {
    const auto comma = list.find(',');
    words.emplace_back(trimmed(list.substr(0, comma)));
    if (comma == std::string_view::npos) return words;
    list.remove_prefix(comma + 1);
  }
}

bool has_uuid(const MachineFacts& facts, std::string_view word) {
  return std::ranges::any_of(devices(facts), [&](const watch::Device& device) {
    const auto is_selected = [&](const std::optional<std::string>& uuid) {
      return uuid && uuid->starts_with(word);
    };
    return is_selected(device.identity.uuid) ||
           std::ranges::any_of(device.health.mig_instances, [&](const gpu::MigInstance& part) {
             return is_selected(part.uuid);
           });
  });
}

// Nothing: it is unknown.
std::optional<bool> names_a_device(const MachineFacts& facts, const std::string& word) {
  if (word.starts_with("GPU-") || word.starts_with("MIG-")) {
    const bool knows_all = std::ranges::all_of(devices(facts), [](const watch::Device& device) {
      return device.identity.uuid.has_value();
    });
    const bool is_old_mig = word.starts_with("MIG-GPU-");  // with its instances' numbers behind
    if (!knows_all || is_old_mig) return std::nullopt;
    return has_uuid(facts, word);
  }
  const auto number = gpu::drm::as_number(word);
  if (!number) return false;
  return *number < *facts.nvidia.nvml.devices;
}

Finding none(const MachineFacts& facts) {
  return {"cuda.visible_none",
          Severity::kWarning,
          tr("CUDA_VISIBLE_DEVICES hides every GPU"),
          tr("CUDA programs started here find no GPU and fall back to the processor, or end."),
          {"", {fmt::format("unset {}", kName)}},
          {shown(facts, kName)}};
}

Finding invalid(const MachineFacts& facts, const std::string& word, size_t at) {
  return {"cuda.visible_invalid",
          Severity::kBad,
          trf("CUDA_VISIBLE_DEVICES names a GPU that is not there: {}", word),
          trf("CUDA takes the list up to the first word that names none, so programs see {} "
              "of the {} here.",
              counted(at, "GPU"), *facts.nvidia.nvml.devices),
          {tr("name those that nvidia-smi -L lists"),
           {"nvidia-smi -L", fmt::format("unset {}", kName)}},
          {shown(facts, kName)}};
}

Finding twice(const MachineFacts& facts, const std::string& word) {
  return {
      "cuda.visible_twice",
      Severity::kBad,
      trf("CUDA_VISIBLE_DEVICES names GPU {} twice", word),
      tr("CUDA does not take a list with a device in it twice: programs find no GPU, or fewer than "
         "meant."),
      {tr("name each once"), {fmt::format("unset {}", kName)}},
      {shown(facts, kName)}};
}

}  // namespace

Findings check_visible_devices(const MachineFacts& facts) {
  const auto list = variable(facts, kName);
  if (!list || !nvml_works(facts)) return {};
  if (list->empty() || *list == "-1" || *list == "NoDevFiles") return {none(facts)};
  const std::vector<std::string> words = words_in(*list);
  for (size_t at = 0; at < words.size(); ++at) {
    const auto before = words.begin() + static_cast<std::ptrdiff_t>(at);
    if (words[at] == "-1") return {};  // it ends the list on purpose
    if (names_a_device(facts, words[at]) == false) return {invalid(facts, words[at], at)};
    if (std::find(words.begin(), before, words[at]) != before) return {twice(facts, words[at])};
  }
  return {};
}

}  // namespace vram::doctor
