#include "replay/peers/torch_options.hpp"

#include "replay/peers/settings.hpp"
#include "replay/peers/torch.hpp"
#include "replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace vram::replay {
namespace {

constexpr std::array<PeerKey, 8> kTorchKeys{{
    {"expandable_segments", "True|False"},
    {"max_split_size_mb", "MEBIBYTES, more than 20"},
    {"max_non_split_rounding_mb", "MEBIBYTES, more than 20"},
    {"roundup_power2_divisions", "POWER_OF_TWO or [MEBIBYTES:POWER_OF_TWO,...,>:POWER_OF_TWO]"},
    {"garbage_collection_threshold", "SHARE between 0 and 1"},
    {"large_segment_size_mb", "MEBIBYTES, even, 20 or more"},
    {"per_process_memory_fraction", "SHARE between 0 and 1"},
    {"throw_on_cudamalloc_oom", "True|False"},
}};

// A device is no larger: reservations of address space are sized for it where no limit is known.
constexpr uint64_t kDefaultDeviceBytes = 152 * kGiB;
// For a limit that no device has, they are no larger, so that there is room for many of them.
constexpr uint64_t kMaxReservedForBytes = 64 * kMaxDeviceBytes;

std::optional<uint64_t> mebibytes(std::string_view text, uint64_t minimum, uint64_t multiple) {
  const auto value = read_whole_number(text);
  if (!value || *value < minimum || *value > kMaxSettingMebibytes || *value % multiple != 0)
    return {};
  return *value * kMiB;
}

std::optional<uint64_t> power_of_two_or_0(std::string_view text) {
  const auto value = read_whole_number(text);
  if (!value || (*value != 0 && !std::has_single_bit(*value)) || *value > kMiB) return {};
  return value;
}

// One "MEBIBYTES:DIVISIONS" of the list; next is the first interval that no entry has named yet.
bool read_division(std::string_view entry, std::array<uint64_t, 16>& divisions, size_t& next) {
  const size_t colon = entry.find(':');
  if (colon == std::string_view::npos) return false;
  const auto count = power_of_two_or_0(entry.substr(colon + 1));
  if (!count) return false;
  if (entry.substr(0, colon) == ">") {
    std::fill(divisions.begin() + static_cast<ptrdiff_t>(next), divisions.end(), *count);
    next = divisions.size();
    return true;
  }
  const auto key = read_whole_number(entry.substr(0, colon));
  if (!key || !std::has_single_bit(*key)) return false;
  const size_t index =
      std::min<size_t>(static_cast<size_t>(std::countr_zero(*key)), divisions.size() - 1);
  // The first entry holds below it, too; intervals left out stay off.
  if (next == 0) std::fill_n(divisions.begin(), index, *count);
  divisions[index] = *count;
  next = std::max(next, index + 1);
  return true;
}

bool read_divisions(std::string_view text, std::array<uint64_t, 16>& divisions) {
  if (!text.starts_with('[')) {
    const auto all = power_of_two_or_0(text);
    if (all) divisions.fill(*all);
    return all.has_value();
  }
  if (!text.ends_with(']')) return false;
  text = text.substr(1, text.size() - 2);
  size_t next = 0;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    if (!read_division(text.substr(0, comma), divisions, next)) return false;
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
  }
}

// False when the value is not of the key's form; keys are known here.
bool read(std::string_view key, std::string_view value, TorchSettings& to) {
  if (key == "expandable_segments") return keep(read_truth(value), to.expandable_segments);
  if (key == "max_split_size_mb") return keep(mebibytes(value, 21, 1), to.max_split_bytes);
  if (key == "max_non_split_rounding_mb")
    return keep(mebibytes(value, 21, 1), to.max_non_split_rounding_bytes);
  if (key == "roundup_power2_divisions") return read_divisions(value, to.divisions);
  if (key == "garbage_collection_threshold")
    return keep(read_share(value), to.garbage_collection_threshold);
  if (key == "large_segment_size_mb") return keep(mebibytes(value, 20, 2), to.large_segment_bytes);
  if (key == "throw_on_cudamalloc_oom") return keep(read_truth(value), to.throw_on_oom);
  return keep(read_share(value), to.memory_fraction) && to.memory_fraction > 0;
}

std::string recorded_divisions(const std::array<uint64_t, 16>& divisions) {
  if (std::all_of(divisions.begin(), divisions.end(),
                  [&](uint64_t d) { return d == divisions[0]; })) {
    return std::to_string(divisions[0]);
  }
  std::string text;
  for (size_t i = 0; i < divisions.size(); ++i) {
    text += fmt::format("{}{}:{}", i == 0 ? "[" : ",", uint64_t{1} << i, divisions[i]);
  }
  return text + "]";
}

struct Note {
  std::string_view key;
  std::string_view text;
};

constexpr std::array<Note, 4> kNotes{{
    {"expandable_segments",
     tr_later(
         "expandable_segments needs PyTorch 2.1 or newer on Linux; such memory can't be shared by "
         "cudaIpcGetMemHandle (custom all-reduce kernels, some RDMA libraries)")},
    {"max_non_split_rounding_mb", tr_later("max_non_split_rounding_mb needs PyTorch 2.6 or newer")},
    {"garbage_collection_threshold",
     tr_later("garbage_collection_threshold acts only in a process with a limit: "
              "torch.cuda.set_per_process_memory_fraction() below 1")},
    {"large_segment_size_mb", tr_later("large_segment_size_mb needs PyTorch 2.11 or newer")},
}};

}  // namespace

std::span<const PeerKey> torch_keys() { return kTorchKeys; }

Result<TorchSettings> parse_torch_settings(Settings settings) {
  return parse_settings<TorchSettings>("torch", kTorchKeys, settings, read);
}

std::unique_ptr<Allocator> make_torch(Settings settings, const PeerContext& context) {
  const TorchSettings torch = parse_torch_settings(settings).value();
  // Garbage collection acts only with a memory fraction: its threshold stands for one of the
  // whole device, too.
  const bool has_fraction = context.limit_is_fraction || torch.memory_fraction < 1 ||
                            torch.garbage_collection_threshold > 0;
  std::optional<uint64_t> limit_bytes = has_fraction ? context.limit_bytes : std::nullopt;
  if (limit_bytes && torch.memory_fraction < 1) {
    limit_bytes = static_cast<uint64_t>(static_cast<double>(*limit_bytes) * torch.memory_fraction);
  }
  const bool has_room =
      can_hold_layout(context.program, limit_bytes ? limit_bytes : context.limit_bytes);
  if (!torch.expandable_segments) {
    return std::make_unique<TorchNative>(torch, limit_bytes, has_room, context.program,
                                         context.segments);
  }
  const uint64_t device_bytes =
      std::clamp(context.limit_bytes.value_or(0), kDefaultDeviceBytes, kMaxReservedForBytes);
  return std::make_unique<TorchExpandable>(torch, limit_bytes, has_room, device_bytes,
                                           context.program, context.segments);
}

// Parsed values first; what the recorder did not parse comes from the variable's own text.
std::vector<std::pair<std::string, std::string>> recorded_torch_settings(
    const trace::Trace& trace) {
  std::vector<std::pair<std::string, std::string>> settings;
  std::array<uint64_t, 16> divisions{};
  constexpr std::string_view kDivisions = "roundup_power2_divisions.";
  std::string conf;
  for (const auto& [key, value] : trace.settings) {
    const auto number = read_whole_number(value);
    if (key == "PYTORCH_CUDA_ALLOC_CONF") conf = value;
    if (key == "expandable_segments" && read_truth(value).value_or(false))
      settings.emplace_back(key, "True");
    if (key == "max_split_size" && number && *number / kMiB > 20 &&
        *number / kMiB < kMaxSettingMebibytes)
      settings.emplace_back("max_split_size_mb", std::to_string(*number / kMiB));
    if (key == "garbage_collection_threshold" && read_share(value).value_or(0) > 0)
      settings.emplace_back(key, value);
    if (!key.starts_with(kDivisions)) continue;
    const auto mib = read_whole_number(std::string_view(key).substr(kDivisions.size()));
    const auto count = power_of_two_or_0(value);
    if (mib && count && std::has_single_bit(*mib) && *mib < (uint64_t{1} << divisions.size()))
      divisions[static_cast<size_t>(std::countr_zero(*mib))] = *count;
  }
  if (std::any_of(divisions.begin(), divisions.end(), [](uint64_t d) { return d > 1; }))
    settings.emplace_back("roundup_power2_divisions", recorded_divisions(divisions));
  for (auto& [key, value] : split_settings(conf)) {
    if (key != "max_non_split_rounding_mb" && key != "large_segment_size_mb" &&
        key != "throw_on_cudamalloc_oom")
      continue;
    TorchSettings ignored;
    if (read(key, value, ignored)) settings.emplace_back(key, value);
  }
  return settings;
}

TorchSettings recorded_torch(const trace::Trace& trace) {
  return parse_torch_settings(recorded_torch_settings(trace)).value();
}

std::optional<std::string> pytorch_conf(const AllocatorSpec& spec) {
  if (spec.name == "cuda_async" && spec.settings.empty()) return "backend:cudaMallocAsync";
  if (spec.name != "torch") return std::nullopt;
  std::string conf;
  for (const auto& [key, value] : spec.settings) {
    conf += fmt::format("{}{}:{}", conf.empty() ? "" : ",", key, value);
  }
  return conf;
}

std::string export_line(const AllocatorSpec& spec) {
  const std::string conf = pytorch_conf(spec).value_or("");
  if (conf.empty()) return "unset PYTORCH_CUDA_ALLOC_CONF";
  const bool plain = conf.find_first_of("[]>") == std::string::npos;
  return fmt::format("export PYTORCH_CUDA_ALLOC_CONF={0}{1}{0}", plain ? "" : "'", conf);
}

std::vector<std::string> setting_notes(const AllocatorSpec& spec) {
  std::vector<std::string> notes;
  for (const auto& [key, text] : kNotes) {
    for (const auto& setting : spec.settings) {
      if (setting.first == key) notes.emplace_back(tr(text));
    }
  }
  return notes;
}

}  // namespace vram::replay
