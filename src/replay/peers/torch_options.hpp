// The settings of PYTORCH_CUDA_ALLOC_CONF that change what PyTorch's allocator reserves, as text
// and as TorchSettings, both ways: from a spec, from what a recording says, and for PyTorch to
// read. Pure.
#pragma once

#include "replay/peers/torch_rules.hpp"
#include "replay/registry.hpp"
#include "replay/replay.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vram::replay {

// Larger values of settings in MiB are refused: 16 TiB.
inline constexpr uint64_t kMaxSettingMebibytes = uint64_t{1} << 24;

[[nodiscard]] std::span<const PeerKey> torch_keys();
// Errors: kBadInput with the value, what is accepted, and all valid keys.
[[nodiscard]] Result<TorchSettings> parse_torch_settings(Settings settings);
// Native or expandable, as the settings say.
[[nodiscard]] std::unique_ptr<Allocator> make_torch(Settings settings, const PeerContext& context);
// What a recorded program ran with, as keys that differ from the defaults.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> recorded_torch_settings(
    const trace::Trace& trace);
// The same as values.
[[nodiscard]] TorchSettings recorded_torch(const trace::Trace& trace);

// "key:value,key:value"; empty for the default, nullopt if PyTorch cannot be configured so.
[[nodiscard]] std::optional<std::string> pytorch_conf(const AllocatorSpec& spec);

// The line for a shell that sets PyTorch so: "export PYTORCH_CUDA_ALLOC_CONF=key:value"; for the
// defaults the line that unsets the variable.
[[nodiscard]] std::string export_line(const AllocatorSpec& spec);

// One sentence for each setting that some PyTorch versions lack, or that has a condition or a cost.
[[nodiscard]] std::vector<std::string> setting_notes(const AllocatorSpec& spec);

}  // namespace vram::replay
