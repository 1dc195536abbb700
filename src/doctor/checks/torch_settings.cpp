#include "doctor/checks/torch_settings.hpp"

#include "gpu/drm/files.hpp"

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
  if (value.empty()) return "it needs a value: " + key + ":VALUE";
  if (is_switch(key))
    return value == "True" || value == "False" ? "" : "it takes True or False, written so";
  if (key == "backend")
    return value == "native" || value == "cudaMallocAsync" || value == "hipMallocAsync"
               ? ""
               : "it takes native or cudaMallocAsync";
  if (key == "max_split_size_mb") {
    const auto size = gpu::drm::as_number(value);
    return size && *size > kMinSplitMb ? "" : "it takes a whole number above 20";
  }
  if (key == "garbage_collection_threshold") {
    const auto share = as_fraction(value);
    return share && *share > 0 && *share < 1 ? "" : "it takes a number between 0 and 1";
  }
  if (key == "roundup_power2_divisions")
    return are_divisions(value) ? "" : "it takes a power of two, or a list as [256:1,512:2,>:8]";
  return "";
}

}  // namespace vram::doctor
