#include "plan/testing/chains.hpp"

#include <algorithm>

namespace vram::plan::testing {
namespace {

Option random_option(Random& random, const ChainShape& shape, const Stage& stage,
                     uint64_t input_gradient_bytes) {
  const auto transient = [&] {
    return shape.has_transients ? pick(random, 0, shape.max_bytes) : 0;
  };
  Option option;
  option.kept_bytes = stage.output_bytes + pick(random, 0, 3 * shape.max_bytes);
  if (pick(random, 0, 3) == 0) option.offloaded_bytes = pick(random, 0, shape.max_bytes);
  option.forward_ns = stage.forward_ns;
  option.backward_ns = pick(random, 0, 2 * shape.max_ns);
  option.offload_ns = option.offloaded_bytes > 0 ? pick(random, 0, shape.max_ns) : 0;
  option.fetch_ns = option.offloaded_bytes > 0 ? pick(random, 0, shape.max_ns) : 0;
  option.forward_peak_bytes = option.kept_bytes + option.offloaded_bytes + transient();
  // The output may be freed before backward begins.
  const uint64_t freed = pick(random, 0, 1) == 0 ? stage.output_bytes : 0;
  const uint64_t gradients = input_gradient_bytes + stage.parameter_gradient_bytes;
  option.backward_peak_bytes =
      std::max(stage.gradient_bytes, gradients + option.kept_bytes - freed) + transient();
  return option;
}

}  // namespace

uint64_t pick(Random& random, uint64_t low, uint64_t high) {
  return low + random() % (high - low + 1);
}

Chain random_chain(Random& random, const ChainShape& shape) {
  Chain chain;
  chain.fixed_bytes = pick(random, 0, shape.max_bytes);
  chain.input_bytes = pick(random, 0, shape.max_bytes);
  for (uint32_t i = 0; i < shape.stages; ++i) {
    Stage& stage = chain.stages.emplace_back();
    stage.output_bytes = pick(random, 0, shape.max_bytes);
    if (shape.has_gradients) {
      stage.gradient_bytes = pick(random, 0, 1) == 0 ? stage.output_bytes : 0;
      stage.parameter_gradient_bytes = pick(random, 0, shape.max_bytes / 2);
    }
    stage.forward_ns = pick(random, 0, shape.max_ns);
    stage.forward_peak_bytes =
        stage.output_bytes + (shape.has_transients ? pick(random, 0, shape.max_bytes) : 0);
    const uint64_t options = pick(random, 1, shape.max_options);
    const uint64_t input_gradient_bytes = i == 0 ? 0 : chain.stages[i - 1].gradient_bytes;
    for (uint64_t number = 0; number < options; ++number)
      stage.options.push_back(random_option(random, shape, stage, input_gradient_bytes));
  }
  return chain;
}

Chain equal_chain(uint32_t stages, uint64_t output_bytes, uint64_t kept_bytes) {
  Chain chain;
  for (uint32_t i = 0; i < stages; ++i) {
    Stage& stage = chain.stages.emplace_back();
    stage.output_bytes = output_bytes;
    stage.forward_ns = 1;
    stage.forward_peak_bytes = output_bytes;
    add_option(stage, kept_bytes, 1, 2);
  }
  return chain;
}

void add_option(Stage& stage, uint64_t kept_bytes, uint64_t forward_ns, uint64_t backward_ns) {
  Option option;
  option.name = "option " + std::to_string(stage.options.size());
  option.kept_bytes = kept_bytes;
  option.forward_ns = forward_ns;
  option.backward_ns = backward_ns;
  option.forward_peak_bytes = kept_bytes;
  option.backward_peak_bytes = kept_bytes;
  stage.options.push_back(option);
}

}  // namespace vram::plan::testing
