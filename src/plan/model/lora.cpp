#include "plan/model/lora.hpp"

#include "plan/model/weights.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace vram::plan {
namespace {

// Experts and the router get no adapters.
bool has_adapter(const Weight& weight, Targets targets) {
  constexpr std::array<std::string_view, 3> kQueryValue = {"q", "v", "qkv"};
  constexpr std::array<std::string_view, 5> kAttention = {"q", "k", "v", "qkv", "o"};
  constexpr std::array<std::string_view, 4> kMlp = {"gate", "up", "gate_up", "down"};
  const auto is_in = [&](const auto& names) {
    return std::ranges::find(names, weight.name) != names.end();
  };
  if (targets == Targets::kQueryValue) return is_in(kQueryValue);
  return is_in(kAttention) || (targets == Targets::kLinear && is_in(kMlp));
}

}  // namespace

uint64_t adapter_parameter_count(const Block& block, const Task& task) {
  uint64_t count = 0;
  for (const Weight& each : weights_of(block)) {
    if (has_adapter(each, task.targets)) count += task.rank * (each.inputs + each.outputs);
  }
  return count;
}

uint64_t adapter_activation_bytes(const Block& block, const Task& task) {
  uint64_t numbers = 0;
  for (const Weight& each : weights_of(block)) {
    if (has_adapter(each, task.targets)) numbers += each.inputs + task.rank;
  }
  return numbers * kAdapterNumberBytes;
}

}  // namespace vram::plan
