// Settings of PyTorch's allocator that stop a program, cost memory, or do nothing.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "doctor/checks/checks.hpp"
#include "gpu/drm/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace vram::doctor {
namespace {

constexpr uint64_t kMinSplitMb = 20;

bool is_switch(std::string_view key) {
  constexpr std::array<std::string_view, 7> kSwitches = {
      "expandable_segments",           "release_lock_on_cudamalloc",
      "pinned_use_cuda_host_register", "pinned_use_hip_host_register",
      "pinned_use_background_threads", "graph_capture_record_stream_reuse",
      "throw_on_cudamalloc_oom"};
  return std::ranges::count(kSwitches, key) > 0;
}

bool is_power_of_two(std::string_view text) {
  const auto number = gpu::drm::as_number(text);
  return number && (*number & (*number - 1)) == 0;
}

// "[256:1,512:2,>:8]"
bool are_divisions(std::string_view text) {
  if (!text.starts_with('[')) return is_power_of_two(text) && text != "0";
  if (!text.ends_with(']')) return false;
  return std::ranges::all_of(torch_settings(text.substr(1, text.size() - 2)),
                             [](const TorchSetting& interval) {
                               return (interval.key == ">" || is_power_of_two(interval.key)) &&
                                      is_power_of_two(interval.value);
                             });
}

constexpr std::array kNames = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                               "PYTORCH_ALLOC_CONF"};
constexpr uint64_t kSmallSplitMb = 128;

// What a program needs, measured: both commands name the same recording.
constexpr auto kRecord = "vram run --record run.vtrace -- python train.py";
constexpr auto kTune = "vram tune run.vtrace";

// The settings that count, and where they were found.
struct Settings {
  std::string name;
  std::vector<TorchSetting> list;
  std::string evidence;

  [[nodiscard]] std::string_view value_of(std::string_view key) const {
    const auto found = std::ranges::find(list, key, &TorchSetting::key);
    return found == list.end() ? std::string_view() : found->value;
  }
  [[nodiscard]] bool has(std::string_view key) const {
    return std::ranges::count(list, key, &TorchSetting::key) > 0;
  }
  [[nodiscard]] bool is_expandable() const { return value_of("expandable_segments") == "True"; }
  [[nodiscard]] bool is_async() const { return value_of("backend").ends_with("MallocAsync"); }
  // The variable with some keys left out, and with what PyTorch would refuse.
  [[nodiscard]] std::string without(std::vector<std::string_view> keys) const;
};

// These words come from an environment and go into a command that users copy: what is not of
// PyTorch's own letters is left out.
bool is_harmless(const TorchSetting& setting) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:,>[]";
  return std::ranges::count(torch_keys(), setting.key) > 0 && why_refused(setting).empty() &&
         setting.value.find_first_not_of(kLetters) == std::string::npos;
}

std::string Settings::without(std::vector<std::string_view> keys) const {
  std::string text;
  for (const TorchSetting& setting : list) {
    if (std::ranges::count(keys, setting.key) > 0 || !is_harmless(setting)) continue;
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", setting.key, setting.value);
  }
  return text.empty() ? "unset " + name : fmt::format("export {}='{}'", name, text);
}

Settings settings_of(const MachineFacts& facts) {
  for (const char* name : kNames) {
    const auto value = variable(facts, name);
    if (value && !value->empty()) return {name, torch_settings(*value), shown(facts, name)};
  }
  return {};
}

Finding finding(const Settings& settings, std::string id, Severity severity, std::string what,
                std::string why, Repair repair) {
  return {std::move(id),  severity,          std::move(what),
          std::move(why), std::move(repair), {settings.evidence}};
}

// The settings as they may have been meant; what can't be put right keeps its fault.
Settings corrected(Settings settings) {
  for (TorchSetting& setting : settings.list) {
    const std::string_view meant = nearest(setting.key, torch_keys());
    if (!meant.empty()) setting.key = meant;
    const bool is_switched_on = is_on(setting.value);
    if (!why_refused(setting).empty() && (is_switched_on || is_off(setting.value)))
      setting.value = is_switched_on ? "True" : "False";
  }
  return settings;
}

void add_refused(const Settings& settings, Findings& findings) {
  for (const TorchSetting& setting : settings.list) {
    const bool is_known = std::ranges::count(torch_keys(), setting.key) > 0;
    const std::string key = printable(setting.key);
    const std::string why = is_known ? why_refused(setting) : "";
    if (is_known && why.empty()) continue;
    const std::string command = corrected(settings).without({});
    if (!is_known) {
      const std::string_view meant = nearest(setting.key, torch_keys());
      findings.push_back(finding(
          settings, "torch.unknown_key", Severity::kBad,
          trf("PyTorch's allocator has no setting '{}'{}", key,
              meant.empty() ? "" : trf("; {} may be meant", meant)),
          tr("PyTorch ends the program at its first use of CUDA: 'Unrecognized CachingAllocator "
             "option'."),
          {tr("write it as PyTorch knows it, or leave it out"), {command}}));
    } else {
      findings.push_back(
          finding(settings, "torch.bad_value", Severity::kBad,
                  trf("PyTorch refuses {}:{}", key, printable(setting.value)),
                  trf("Of {}: {}. The program ends at its first use of CUDA.", key, why),
                  {tr("correct the value, or leave it out"), {command}}));
    }
  }
}

void add_split(const Settings& settings, Findings& findings) {
  if (!settings.has("max_split_size_mb") || settings.is_async()) return;
  const auto size = std::string(settings.value_of("max_split_size_mb"));
  const uint64_t mb = size.size() < 10 ? std::strtoull(size.c_str(), nullptr, 10) : UINT64_MAX;
  if (settings.is_expandable()) {
    findings.push_back(
        finding(settings, "torch.split_with_expandable", Severity::kNote,
                tr("max_split_size_mb with expandable_segments"),
                tr("It keeps large blocks whole, so that they can be given back. "
                   "Expandable segments give pages "
                   "back whatever was split, so there is nothing left for it to do."),
                {tr("leave it out"), {settings.without({"max_split_size_mb"})}}));
  } else if (mb < kSmallSplitMb) {
    findings.push_back(finding(
        settings, "torch.small_split", Severity::kWarning,
        trf("max_split_size_mb is {}: larger free blocks are never split", size),
        trf("A free block above {} MiB is only reused for a request that is above it, too, "
            "and less than 20 MiB smaller; for all others PyTorch asks the driver for new "
            "memory, and where there is none, frees and asks again. Small values are often "
            "copied from answers to other people's out-of-memory errors.",
            size),
        {tr("use expandable segments instead, which end this kind of fragmentation, or let 'vram "
            "tune' "
            "find the value with a recording of the program"),
         {fmt::format("export {}=expandable_segments:True", settings.name), kRecord, kTune}}));
  }
}

void add_collection(const Settings& settings, Findings& findings) {
  if (!settings.has("garbage_collection_threshold") || settings.is_async()) return;
  if (settings.is_expandable()) {
    findings.push_back(finding(
        settings, "torch.gc_with_expandable", Severity::kNote,
        tr("garbage_collection_threshold does nothing with expandable segments"),
        tr("The collection frees whole cached segments of the ordinary kind; expandable ones "
           "are passed over."),
        {tr("leave it out"), {settings.without({"garbage_collection_threshold"})}}));
  } else if (!settings.has("per_process_memory_fraction")) {
    findings.push_back(
        finding(settings, "torch.gc_without_fraction", Severity::kNote,
                tr("garbage_collection_threshold works only where a memory fraction is set"),
                tr("It is a share of that limit. In a program that never calls "
                   "torch.cuda.set_per_process_memory_fraction it does nothing."),
                {tr("set the limit in the program, or leave the threshold out"),
                 {tr("torch.cuda.set_per_process_memory_fraction(0.95)"),
                  settings.without({"garbage_collection_threshold"})}}));
  }
}

void add_async(const Settings& settings, Findings& findings) {
  if (!settings.is_async()) return;
  std::vector<std::string_view> ignored;
  for (const TorchSetting& setting : settings.list) {
    const bool is_known = std::ranges::count(torch_keys(), setting.key) > 0;
    if (is_known && setting.key != "backend" && !setting.key.starts_with("pinned_"))
      ignored.push_back(setting.key);
  }
  if (ignored.empty()) return;
  findings.push_back(
      finding(settings, "torch.async_ignores", Severity::kWarning,
              trf("backend:cudaMallocAsync ignores {}", fmt::join(ignored, ", ")),
              tr("These are settings of PyTorch's own allocator. With this backend the CUDA driver "
                 "allocates, and PyTorch's memory history has nothing to record."),
              {tr("leave them out, or use PyTorch's own allocator with them"),
               {settings.without(ignored), settings.without({"backend"})}}));
}

// In a list, the smallest division counts: it wastes most.
uint64_t divisions_in(std::string_view value) {
  if (!value.starts_with('[')) return std::strtoull(std::string(value).c_str(), nullptr, 10);
  uint64_t least = UINT64_MAX;
  for (const TorchSetting& interval : torch_settings(value.substr(1, value.size() - 2))) {
    const uint64_t divisions = std::strtoull(interval.value.c_str(), nullptr, 10);
    if (divisions > 1) least = std::min(least, divisions);  // 0 and 1: off
  }
  return least;
}

void add_rounding(const Settings& settings, Findings& findings) {
  if (!settings.has("roundup_power2_divisions") || settings.is_async()) return;
  const uint64_t divisions = divisions_in(settings.value_of("roundup_power2_divisions"));
  if (divisions < 2 || divisions > 8) return;
  findings.push_back(
      finding(settings, "torch.coarse_rounding", Severity::kNote,
              trf("sizes are rounded up in {} steps from one power of two to the next", divisions),
              trf("Up to {} % of a tensor's size is added to it. That pays where sizes vary a "
                  "little at every step; where they repeat it is lost.",
                  100 / divisions),
              {tr("measure it with a recording of the program, or leave it out"),
               {kRecord, kTune, settings.without({"roundup_power2_divisions"})}}));
}

void add_names(const MachineFacts& facts, const Settings& settings, Findings& findings) {
  const auto newest = variable(facts, "PYTORCH_ALLOC_CONF");
  if (!newest || newest->empty()) return;
  if (settings.name != "PYTORCH_ALLOC_CONF") {
    if (variable(facts, settings.name) == newest) return;
    findings.push_back(finding(
        settings, "torch.two_variables", Severity::kWarning,
        trf("{} and PYTORCH_ALLOC_CONF say different things", settings.name),
        tr("Which of them counts depends on PyTorch's version; one is ignored without a word."),
        {tr("keep one"), {"unset PYTORCH_ALLOC_CONF"}}));
    findings.back().evidence.push_back(shown(facts, "PYTORCH_ALLOC_CONF"));
  } else if (settings.is_expandable()) {
    findings.push_back(finding(
        settings, "torch.new_name", Severity::kNote,
        tr("expandable_segments is set by PYTORCH_ALLOC_CONF, which not every PyTorch reads"),
        tr("Versions before 2.9 don't know the variable, and 2.9 ignores expandable_segments in "
           "it, "
           "both without a word."),
        {tr("set the older name, which all versions read"),
         {Settings{kNames[0], settings.list, ""}.without({})}}));
  }
}

void add_expandable(const MachineFacts& facts, const Settings& settings, Findings& findings) {
  if (settings.has("expandable_segments") || settings.is_async() || settings.list.empty() ||
      facts.platform.is_wsl || facts.platform.board)
    return;
  findings.push_back(finding(
      settings, "torch.not_expandable", Severity::kNote, tr("expandable_segments is not set"),
      tr("It lets segments grow in place, which ends most fragmentation of programs whose sizes "
         "vary. "
         "It costs nothing but when CUDA tensors are sent between processes."),
      {tr("try it, on Linux, from PyTorch 2.1 on"),
       {fmt::format("export {}=expandable_segments:True", settings.name)}}));
}

void add_uncached(const MachineFacts& facts, Findings& findings) {
  constexpr const char* kName = "PYTORCH_NO_CUDA_MEMORY_CACHING";
  if (!variable(facts, kName)) return;  // whatever its value: PyTorch looks whether it is set
  findings.push_back({"torch.no_caching",
                      Severity::kWarning,
                      tr("PyTorch's memory caching is switched off"),
                      tr("Every tensor is a call of the CUDA driver, and freeing one waits for the "
                         "GPU: training runs several times slower. It is meant for debugging with "
                         "compute-sanitizer; any value switches it on, 0 as well."),
                      {"", {fmt::format("unset {}", kName)}},
                      {shown(facts, kName)}});
}

}  // namespace

std::optional<double> as_fraction(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  const bool is_number = !copy.empty() && *end == '\0' && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

std::vector<TorchSetting> torch_settings(std::string_view text) {
  std::vector<TorchSetting> settings;
  std::string key;
  std::string value;
  bool has_key = false;
  int depth = 0;
  const auto finish = [&] {
    if (!key.empty() || has_key) settings.push_back({key, value});
    key.clear();
    value.clear();
    has_key = false;
  };
  for (const char c : text) {
    if (c == ' ' || c == '\t') continue;
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth <= 0) {
      finish();
    } else if (c == ':' && !has_key) {
      has_key = true;
    } else {
      (has_key ? value : key) += c;
    }
  }
  finish();
  return settings;
}

const std::vector<std::string>& torch_keys() {
  static const std::vector<std::string> kKeys = {"backend",
                                                 "max_split_size_mb",
                                                 "max_non_split_rounding_mb",
                                                 "garbage_collection_threshold",
                                                 "roundup_power2_divisions",
                                                 "roundup_bypass_threshold_mb",
                                                 "expandable_segments",
                                                 "release_lock_on_cudamalloc",
                                                 "release_lock_on_hipmalloc",
                                                 "pinned_use_cuda_host_register",
                                                 "pinned_use_hip_host_register",
                                                 "pinned_num_register_threads",
                                                 "pinned_use_background_threads",
                                                 "pinned_reserve_segment_size_mb",
                                                 "per_process_memory_fraction",
                                                 "graph_capture_record_stream_reuse",
                                                 "throw_on_cudamalloc_oom",
                                                 "large_segment_size_mb"};
  return kKeys;
}

std::string why_refused(const TorchSetting& setting) {
  const std::string& key = setting.key;
  const std::string& value = setting.value;
  if (value.empty()) return tr("it needs a value: ") + key + ":VALUE";
  if (is_switch(key))
    return value == "True" || value == "False" ? "" : tr("it takes True or False, written so");
  if (key == "backend")
    return value == "native" || value == "cudaMallocAsync" || value == "hipMallocAsync"
               ? ""
               : tr("it takes native or cudaMallocAsync");
  if (key == "max_split_size_mb") {
    const auto size = gpu::drm::as_number(value);
    return size && *size > kMinSplitMb ? "" : tr("it takes a whole number above 20");
  }
  if (key == "garbage_collection_threshold") {
    const auto share = as_fraction(value);
    return share && *share > 0 && *share < 1 ? "" : tr("it takes a number between 0 and 1");
  }
  if (key == "roundup_power2_divisions")
    return are_divisions(value) ? ""
                                : tr("it takes a power of two, or a list as [256:1,512:2,>:8]");
  return "";
}

Findings check_torch(const MachineFacts& facts) {
  Findings findings;
  const Settings settings = settings_of(facts);
  add_refused(settings, findings);
  add_split(settings, findings);
  add_collection(settings, findings);
  add_async(settings, findings);
  add_rounding(settings, findings);
  add_names(facts, settings, findings);
  add_uncached(facts, findings);
  if (findings.empty() && settings.is_expandable())
    findings.push_back(
        {"torch.good", Severity::kGood, tr("PyTorch's allocator: ") + settings.evidence});
  add_expandable(facts, settings, findings);
  return findings;
}

}  // namespace vram::doctor
