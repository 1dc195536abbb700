#include "plan/chain_of.hpp"

#include "plan/solve/solvers.hpp"
#include "plan/testing/chains.hpp"
#include "plan/testing/recorded_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vram::plan {
namespace {

using testing::kUnlimited;
using testing::pick;
using testing::Random;
using testing::StepWriter;

constexpr uint64_t kParameterBytes = 1'000'000;

// A stage whose input its backward reads, as that of a layer norm.
struct MadeStage {
  std::string module;
  uint64_t output = 100;
  uint64_t kept = 300;
  uint64_t forward_temporary = 50;
  uint64_t backward_temporary = 80;
  uint64_t parameter_gradient = 70;
  uint64_t forward_ns = 10;
  uint64_t backward_ns = 20;
  bool saves_its_output = false;  // ... as a ReLU does
};

class MadeStep {
 public:
  explicit MadeStep(std::vector<MadeStage> stages) : stages_(std::move(stages)) {
    writer_.alloc(kParameterBytes);
  }

  // Called within the forward and the backward of a stage, after what it keeps was allocated.
  using Extra = std::function<void(StepWriter&, size_t stage, bool is_forward)>;

  trace::Trace finish(const Extra& extra = {}) {
    for (size_t i = 0; i < stages_.size(); ++i) forward(i, extra);
    for (size_t i = stages_.size(); i-- > 0;) backward(i, extra);
    writer_.scope("");
    return writer_.finish();
  }

 private:
  void forward(size_t i, const Extra& extra) {
    const MadeStage& stage = stages_[i];
    writer_.scope("forward/Net/" + stage.module);
    kept_.push_back(writer_.alloc(stage.kept));
    outputs_.push_back(writer_.alloc(stage.output));
    if (extra) extra(writer_, i, true);
    writer_.temporary(stage.forward_temporary);
    writer_.wait_ns(stage.forward_ns);
  }
  void backward(size_t i, const Extra& extra) {
    const MadeStage& stage = stages_[i];
    const bool is_last = i + 1 == stages_.size();
    writer_.scope("backward/" + stage.module);
    writer_.temporary(stage.backward_temporary);
    if (extra) extra(writer_, i, false);
    writer_.alloc(stage.parameter_gradient);
    std::optional<StepWriter::Block> gradient;
    if (i > 0) gradient = writer_.alloc(stages_[i - 1].output);
    if (!is_last) writer_.free(*gradient_);
    gradient_ = gradient;
    writer_.free(kept_[i]);
    if (is_last || stage.saves_its_output) writer_.free(outputs_[i]);
    if (i > 0 && !stages_[i - 1].saves_its_output) writer_.free(outputs_[i - 1]);
    // The last event of the pass ends it, so that the first stage's time needs one more.
    writer_.wait_ns(stage.backward_ns);
    if (i == 0) writer_.temporary(1);
  }

  std::vector<MadeStage> stages_;
  StepWriter writer_;
  std::vector<StepWriter::Block> kept_;
  std::vector<StepWriter::Block> outputs_;
  std::optional<StepWriter::Block> gradient_;
};

std::vector<MadeStage> layers(size_t count) {
  std::vector<MadeStage> stages(count);
  for (size_t i = 0; i < count; ++i) stages[i].module = "h." + std::to_string(i);
  return stages;
}

std::vector<MadeStage> random_stages(Random& random) {
  std::vector<MadeStage> stages = layers(pick(random, 2, 12));
  if (pick(random, 0, 1) == 1) {
    stages.insert(stages.begin(), MadeStage{});
    stages.front().module = "embed";
  }
  if (pick(random, 0, 1) == 1) stages.emplace_back().module = "head";
  for (MadeStage& stage : stages) {
    stage.output = pick(random, 1, 3000);
    stage.kept = pick(random, 1, 9000);
    stage.forward_temporary = pick(random, 1, 9000);
    stage.backward_temporary = pick(random, 1, 9000);
    stage.parameter_gradient = pick(random, 1, 5000);
    stage.forward_ns = pick(random, 1, 1000);
    stage.backward_ns = pick(random, 1, 1000);
  }
  return stages;
}

std::string stage_name(const std::string& module) {
  return module == "embed" ? "before" : module == "head" ? "after" : module;
}

// What chain_of() must find: the next stage frees an output, but the last one's own backward.
Chain expected_chain(const std::vector<MadeStage>& stages) {
  Chain chain;
  chain.fixed_bytes = kParameterBytes;
  for (size_t i = 0; i < stages.size(); ++i) {
    const MadeStage& made = stages[i];
    const bool is_last = i + 1 == stages.size();
    Stage& stage = chain.stages.emplace_back();
    stage.name = stage_name(made.module);
    stage.output_bytes = is_last ? 0 : made.output;
    stage.gradient_bytes = stage.output_bytes;
    stage.parameter_gradient_bytes = made.parameter_gradient;
    stage.forward_ns = made.forward_ns;
    stage.forward_peak_bytes = made.kept + made.output + made.forward_temporary;
    Option& option = stage.options.emplace_back();
    option.name = "keep all";
    option.kept_bytes = made.kept + made.output;
    option.forward_ns = made.forward_ns;
    option.backward_ns = made.backward_ns;
    option.forward_peak_bytes = stage.forward_peak_bytes;
    const uint64_t held = made.kept + made.output;
    const uint64_t gradients = made.parameter_gradient + (i > 0 ? stages[i - 1].output : 0);
    option.backward_peak_bytes = held + std::max(made.backward_temporary, gradients);
  }
  return chain;
}

RecordedChain chain_from(const trace::Trace& trace, std::string stages = "h.*") {
  auto found = chain_of(trace, {std::move(stages)});
  EXPECT_TRUE(found) << found.error().message;
  return found ? *found : RecordedChain{};
}

uint64_t keep_all_peak(const Chain& chain) {
  return keep_all(chain, kUnlimited).value().cost.peak_bytes;
}

void expect_equal(const Chain& found, const Chain& expected) {
  EXPECT_EQ(found.fixed_bytes, expected.fixed_bytes);
  ASSERT_EQ(found.stages.size(), expected.stages.size());
  for (size_t i = 0; i < found.stages.size(); ++i) {
    const Stage& a = found.stages[i];
    const Stage& b = expected.stages[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.output_bytes, b.output_bytes) << a.name;
    EXPECT_EQ(a.gradient_bytes, b.gradient_bytes) << a.name;
    EXPECT_EQ(a.parameter_gradient_bytes, b.parameter_gradient_bytes) << a.name;
    EXPECT_EQ(a.forward_ns, b.forward_ns) << a.name;
    EXPECT_EQ(a.forward_peak_bytes, b.forward_peak_bytes) << a.name;
    ASSERT_EQ(a.options.size(), 1u);
    EXPECT_EQ(a.options[0].kept_bytes, b.options[0].kept_bytes) << a.name;
    EXPECT_EQ(a.options[0].backward_ns, b.options[0].backward_ns) << a.name;
    EXPECT_EQ(a.options[0].forward_peak_bytes, b.options[0].forward_peak_bytes) << a.name;
    EXPECT_EQ(a.options[0].backward_peak_bytes, b.options[0].backward_peak_bytes) << a.name;
  }
}

TEST(ChainOf, FindsTheChainThatMadeTheTrace) {
  Random random(7);
  for (int run = 0; run < 300; ++run) {
    SCOPED_TRACE(run);
    const std::vector<MadeStage> stages = random_stages(random);
    const RecordedChain found = chain_from(MadeStep(stages).finish());
    expect_equal(found.chain, expected_chain(stages));
    EXPECT_EQ(keep_all_peak(found.chain), found.step.pass_peak_bytes);
  }
}

// Blocks that any window allocates and any later one frees: the chain may count too much, never too
// little.
TEST(ChainOf, NeverNeedsLessThanTheTraceDid) {
  Random random(8);
  for (int run = 0; run < 300; ++run) {
    SCOPED_TRACE(run);
    std::vector<MadeStage> stages = random_stages(random);
    for (MadeStage& stage : stages) stage.saves_its_output = pick(random, 0, 1) == 1;
    std::vector<StepWriter::Block> loose;
    const RecordedChain found =
        chain_from(MadeStep(stages).finish([&](StepWriter& writer, size_t, bool) {
          if (pick(random, 0, 1) == 1) loose.push_back(writer.alloc(pick(random, 1, 9000)));
          if (loose.empty() || pick(random, 0, 2) > 0) return;
          const auto freed =
              loose.begin() + static_cast<ptrdiff_t>(pick(random, 0, loose.size() - 1));
          writer.free(*freed);
          loose.erase(freed);
        }));
    EXPECT_GE(keep_all_peak(found.chain), found.step.pass_peak_bytes);
  }
}

TEST(ChainOf, TakesTheSizeOfAnOutputFromItsGradient) {
  std::vector<MadeStage> stages = layers(3);
  for (MadeStage& stage : stages) stage.saves_its_output = true;
  const Chain chain = chain_from(MadeStep(stages).finish()).chain;
  EXPECT_EQ(chain.stages[0].output_bytes, 100u);
  EXPECT_EQ(chain.stages[0].options[0].kept_bytes, 400u);
}

TEST(ChainOf, CountsOldGradientsInEveryForwardUntilTheyAreFreed) {
  StepWriter::Block old;
  const auto write = [&](StepWriter& writer, size_t stage, bool is_forward) {
    if (is_forward && stage == 0) {
      writer.scope("");
      old = writer.alloc(5000);
    }
    if (is_forward && stage == 1) writer.free(old);
  };
  // Allocated in the first stage's window: it skips to the second, which frees it.
  const Chain inside = chain_from(MadeStep(layers(3)).finish(write)).chain;
  EXPECT_EQ(inside.stages[0].output_bytes, 5100u);

  StepWriter writer;
  const StepWriter::Block gradient = writer.alloc(5000);
  for (int i = 0; i < 3; ++i) {
    writer.scope("forward/Net/h." + std::to_string(i));
    writer.alloc(10);
    if (i == 1) writer.free(gradient);
  }
  for (int i = 3; i-- > 0;) {
    writer.scope("backward/h." + std::to_string(i));
    writer.temporary(20);
  }
  const RecordedChain found = chain_from(writer.finish());
  EXPECT_EQ(found.chain.stages[0].forward_peak_bytes, 5000u);
  EXPECT_EQ(found.chain.stages[1].forward_peak_bytes, 5000u);
  EXPECT_EQ(found.chain.stages[2].forward_peak_bytes, 0u);
  EXPECT_EQ(found.chain.fixed_bytes, 30u);
  EXPECT_NE(found.step.notes[0].find("zero_grad()"), std::string::npos);
}

// The gradient of a shared parameter stays anyway; that of a tensor which two stages read shows
// that the tensor must stay, too.
TEST(ChainOf, CountsTensorsThatSkipStagesAllTheTime) {
  for (const bool is_parameter : {false, true}) {
    StepWriter::Block shared;
    StepWriter writer;
    const StepWriter::Block parameter = writer.alloc(6000);
    if (is_parameter) writer.name(parameter, "head.weight", "parameter");
    for (int i = 0; i < 3; ++i) {
      writer.scope("forward/Net/h." + std::to_string(i));
      writer.temporary(10);
    }
    for (int i = 3; i-- > 0;) {
      writer.scope("backward/h." + std::to_string(i));
      writer.temporary(20);
      if (i == 2) shared = writer.alloc(6000);
      if (i == 0) writer.free(shared);
    }
    const Chain chain = chain_from(writer.finish()).chain;
    EXPECT_EQ(chain.fixed_bytes, is_parameter ? 6000u : 12000u);
    EXPECT_EQ(chain.stages[2].parameter_gradient_bytes, 6000u);
  }
}

// The blocks of residual connections: each backward adds to the gradient that it got, in place.
TEST(ChainOf, KnowsAGradientThatStagesPassOnInPlace) {
  StepWriter writer;
  std::vector<StepWriter::Block> kept;
  std::vector<StepWriter::Block> outputs;
  for (int i = 0; i < 4; ++i) {
    writer.scope("forward/Net/h." + std::to_string(i));
    kept.push_back(writer.alloc(300));
    outputs.push_back(writer.alloc(100));
  }
  writer.scope("backward/h.3");
  writer.free(outputs[3]);
  writer.free(kept[3]);
  const StepWriter::Block gradient = writer.alloc(100);
  writer.free(outputs[2]);
  for (int i = 2; i >= 0; --i) {
    writer.scope("backward/h." + std::to_string(i));
    writer.temporary(20);
    writer.free(kept[static_cast<size_t>(i)]);
    if (i > 0) writer.free(outputs[static_cast<size_t>(i) - 1]);
    if (i == 0) writer.free(gradient);
  }
  const RecordedChain found = chain_from(writer.finish());
  EXPECT_EQ(found.chain.fixed_bytes, 0u);
  EXPECT_EQ(found.step.pass_peak_bytes, 1600u);
  EXPECT_EQ(keep_all_peak(found.chain), 1600u);
}

TEST(ChainOf, SaysWhoseTimesItHas) {
  const auto notes = [](std::vector<trace::Setting> about) {
    StepWriter writer;
    for (const auto* scope :
         {"forward/Net/h.0", "forward/Net/h.1", "backward/h.1", "backward/h.0"}) {
      writer.scope(scope);
      writer.temporary(10);
    }
    trace::Trace trace = writer.finish();
    trace.about = std::move(about);
    return chain_from(trace).step.notes;
  };
  EXPECT_EQ(notes({}), std::vector<std::string>{"times are those of the host between the first "
                                                "events of stages, not of the GPU"});
  const std::string dry = "times are the dry run's estimates for its GPU, not measured";
  EXPECT_EQ(notes({{"vram.dry_run", "1"}}), std::vector{dry});
  EXPECT_EQ(notes({{"vram.dry_run", "1"}, {"vram.dry_run.rates", "those of an H200"}}),
            (std::vector<std::string>{dry, "those of an H200"}));
}

TEST(ChainOf, PlansThePassWithTheHighestPeakAndKnowsTheRest) {
  StepWriter writer;
  for (const uint64_t kept : {100u, 900u, 200u}) {
    std::vector<StepWriter::Block> blocks;
    for (const char* module : {"h.0", "h.1"}) {
      writer.scope(std::string("forward/Net/") + module);
      blocks.push_back(writer.alloc(kept));
    }
    for (const char* module : {"h.1", "h.0"}) {
      writer.scope(std::string("backward/") + module);
      writer.free(blocks.back());
      blocks.pop_back();
    }
    writer.scope("optimizer");
    writer.temporary(5000);
  }
  const RecordedChain found = chain_from(writer.finish());
  EXPECT_EQ(found.step.pass_peak_bytes, 1800u);
  EXPECT_EQ(found.step.rest_peak_bytes, 5000u);
}

// Experts are a longer list than the layers around them, but of a part of the memory.
TEST(ChainOf, ChoosesTheLongestListThatHoldsHalfOfTheMemory) {
  StepWriter writer;
  const auto pass = [&](std::string_view part, bool is_forward) {
    for (int k = 0; k < 3; ++k) {
      const int i = is_forward ? k : 2 - k;
      const std::string layer = "model.layers." + std::to_string(i);
      for (int each = 0; each < 8; ++each) {
        const int expert = is_forward ? each : 7 - each;
        writer.scope(std::string(part) + layer + ".experts." + std::to_string(expert));
        writer.temporary(10);
      }
    }
  };
  pass("forward/Net/", true);
  pass("backward/", false);
  const trace::Trace trace = writer.finish();
  const Chain chain = chain_from(trace, "").chain;
  ASSERT_EQ(chain.stages.size(), 3u);
  EXPECT_EQ(chain.stages[1].name, "model.layers.1");
  EXPECT_EQ(chain_from(trace, "model.layers.*.experts.*").chain.stages.size(), 24u);
}

}  // namespace
}  // namespace vram::plan
