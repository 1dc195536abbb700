#include "replay/tune/pytorch_conf.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace vram::replay {
namespace {

struct Note {
  std::string_view key;
  std::string_view text;
};

constexpr std::array<Note, 4> kNotes{{
    {"expandable_segments",
     "expandable_segments needs PyTorch 2.1 or newer on Linux; such memory can't be shared by "
     "cudaIpcGetMemHandle (custom all-reduce kernels, some RDMA libraries)"},
    {"max_non_split_rounding_mb", "max_non_split_rounding_mb needs PyTorch 2.6 or newer"},
    {"garbage_collection_threshold",
     "garbage_collection_threshold acts only in a process with a limit: "
     "torch.cuda.set_per_process_memory_fraction() below 1"},
    {"large_segment_size_mb", "large_segment_size_mb needs PyTorch 2.11 or newer"},
}};

}  // namespace

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
      if (setting.first == key) notes.emplace_back(text);
    }
  }
  return notes;
}

}  // namespace vram::replay
