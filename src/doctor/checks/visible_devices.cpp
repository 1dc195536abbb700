// What CUDA_VISIBLE_DEVICES leaves visible.
#include "base/bytes.hpp"
#include "doctor/checks/checks.hpp"
#include "doctor/checks/words.hpp"
#include "gpu/drm/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::doctor {
namespace {

constexpr const char* kName = "CUDA_VISIBLE_DEVICES";

std::vector<std::string> words_in(std::string_view list) {
  std::vector<std::string> words;
  for (;;) {
    const auto comma = list.find(',');
    words.emplace_back(gpu::drm::trimmed(list.substr(0, comma)));
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

// Nothing: it can't be told.
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
          "CUDA_VISIBLE_DEVICES hides every GPU",
          "CUDA programs started here find no GPU and fall back to the processor, or end.",
          {"", {fmt::format("unset {}", kName)}},
          {shown(facts, kName)}};
}

Finding invalid(const MachineFacts& facts, const std::string& word, size_t at) {
  return {
      "cuda.visible_invalid",
      Severity::kBad,
      fmt::format("CUDA_VISIBLE_DEVICES names a GPU that is not there: {}", word),
      fmt::format("CUDA takes the list up to the first word that names none, so programs see {} "
                  "of the {} here.",
                  counted(at, "GPU"), *facts.nvidia.nvml.devices),
      {"name those that nvidia-smi -L lists", {"nvidia-smi -L", fmt::format("unset {}", kName)}},
      {shown(facts, kName)}};
}

Finding twice(const MachineFacts& facts, const std::string& word) {
  return {
      "cuda.visible_twice",
      Severity::kBad,
      fmt::format("CUDA_VISIBLE_DEVICES names GPU {} twice", word),
      "CUDA does not take a list with a device in it twice: programs find no GPU, or fewer than "
      "meant.",
      {"name each once", {fmt::format("unset {}", kName)}},
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
