#include "plan/chain.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <tuple>

namespace vram::plan {
namespace {

struct NamedValue {
  std::string_view name;
  uint64_t value;
};

Result<> check_limit(const std::string& where, uint64_t limit,
                     std::initializer_list<NamedValue> values) {
  for (const NamedValue& each : values) {
    if (each.value > limit)
      return fail(Code::kTooLarge, "{}: {} is {}; the limit is {}", where, each.name, each.value,
                  limit);
  }
  return {};
}

Result<> check_contains(const std::string& where, NamedValue peak, NamedValue part) {
  if (peak.value >= part.value) return {};
  return fail(Code::kBadInput,
              "{}: {} is {}, less than {} ({}); a peak includes everything that the stage has then",
              where, peak.name, peak.value, part.name, part.value);
}

std::string name_of(const Chain& chain, size_t index) {
  const std::string& name = chain.stages[index].name;
  return name.empty() ? fmt::format("stage {}", index)
                      : fmt::format("stage {} ({})", index, printable(name));
}

Result<> check_option(const Chain& chain, size_t index, const Option& option) {
  const Stage& stage = chain.stages[index];
  const uint64_t input_gradient =
      index == 0 ? chain.input_gradient_bytes : chain.stages[index - 1].gradient_bytes;
  const std::string where =
      fmt::format("{}, option '{}'", name_of(chain, index), printable(option.name));
  const NamedValue backward_peak{"backward_peak_bytes", option.backward_peak_bytes};
  return check_limit(where, kMaxStageBytes,
                     {{"kept_bytes", option.kept_bytes},
                      {"forward_peak_bytes", option.forward_peak_bytes},
                      {"backward_peak_bytes", option.backward_peak_bytes},
                      {"offloaded_bytes", option.offloaded_bytes}})
      .and_then([&] {
        return check_limit(where, kMaxDurationNs,
                           {{"forward_ns", option.forward_ns},
                            {"backward_ns", option.backward_ns},
                            {"offload_ns", option.offload_ns},
                            {"fetch_ns", option.fetch_ns}});
      })
      .and_then([&] {
        return check_contains(where, {"kept_bytes", option.kept_bytes},
                              {"output_bytes", stage.output_bytes});
      })
      .and_then([&] {
        return check_contains(
            where, {"forward_peak_bytes", option.forward_peak_bytes},
            {"kept_bytes plus offloaded_bytes", option.kept_bytes + option.offloaded_bytes});
      })
      .and_then([&] {
        return check_contains(where, backward_peak, {"gradient_bytes", stage.gradient_bytes});
      })
      .and_then([&] {
        return check_contains(where, backward_peak,
                              {"the gradients of its input and its parameters",
                               input_gradient + stage.parameter_gradient_bytes});
      });
}

Result<> check_stage(const Chain& chain, size_t index) {
  const Stage& stage = chain.stages[index];
  const std::string where = name_of(chain, index);
  if (stage.options.empty() || stage.options.size() > kMaxOptions)
    return fail(Code::kBadInput, "{} has {} options; expected 1 to {}", where, stage.options.size(),
                kMaxOptions);
  Result<> result =
      check_limit(where, kMaxStageBytes,
                  {{"output_bytes", stage.output_bytes},
                   {"gradient_bytes", stage.gradient_bytes},
                   {"parameter_gradient_bytes", stage.parameter_gradient_bytes},
                   {"forward_peak_bytes", stage.forward_peak_bytes}})
          .and_then([&] {
            return check_limit(where, kMaxDurationNs, {{"forward_ns", stage.forward_ns}});
          })
          .and_then([&] {
            return check_contains(where, {"forward_peak_bytes", stage.forward_peak_bytes},
                                  {"output_bytes", stage.output_bytes});
          });
  for (size_t i = 0; result && i < stage.options.size(); ++i)
    result = check_option(chain, index, stage.options[i]);
  return result;
}

}  // namespace

uint64_t option_ns(const Option& option) {
  return option.forward_ns + option.backward_ns + option.offload_ns + option.fetch_ns;
}

uint32_t fastest_option(const Stage& stage) {
  const auto fastest = std::ranges::min_element(stage.options, {}, [](const Option& option) {
    return std::tuple(option_ns(option), option.kept_bytes);
  });
  return static_cast<uint32_t>(fastest - stage.options.begin());
}

Result<> check(const Chain& chain) {
  if (chain.stages.empty() || chain.stages.size() > kMaxStages)
    return fail(Code::kBadInput,
                "the chain has {} stages; expected 1 to {}: merge neighbouring stages",
                chain.stages.size(), kMaxStages);
  Result<> result = check_limit("chain", kMaxStageBytes,
                                {{"fixed_bytes", chain.fixed_bytes},
                                 {"input_bytes", chain.input_bytes},
                                 {"input_gradient_bytes", chain.input_gradient_bytes}});
  for (size_t i = 0; result && i < chain.stages.size(); ++i) result = check_stage(chain, i);
  return result;
}

}  // namespace vram::plan
