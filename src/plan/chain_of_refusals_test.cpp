// What chain_of() says of traces of which it makes no chain.
#include "plan/chain_of.hpp"
#include "plan/testing/recorded_step.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vram::plan {
namespace {

using testing::StepWriter;

std::string refusal(const trace::Trace& trace, std::string stages = "") {
  const auto refused = chain_of(trace, {std::move(stages)});
  return refused ? "" : refused.error().message;
}

trace::Trace in_scopes(const std::vector<std::string>& scopes) {
  StepWriter writer;
  for (const std::string& scope : scopes) {
    writer.scope(scope);
    writer.temporary(10);
  }
  return writer.finish();
}

TEST(ChainOf, SaysWhatATraceLacks) {
  EXPECT_EQ(refusal(in_scopes({})),
            "expected events of a GPU's memory, found none; plan the trace of a dry run or a "
            "recording of a training step");
  EXPECT_EQ(refusal(in_scopes({"", ""})),
            "expected events in the scopes of modules, found none in 6 events; record the program "
            "with vram.watch(model), or run it with: python -m vram.dry");
  EXPECT_EQ(refusal(in_scopes({"forward/Net/h.0", "forward/Net/h.1"})),
            "expected a training step, found no backward pass after a forward pass; record at "
            "least one whole step");
  EXPECT_EQ(refusal(in_scopes({"forward/Net/h.0", "forward/Net/h.1", "backward/h.1",
                               "recompute/h.0", "backward/h.0"})),
            "expected a step that keeps all activations, found modules that run again during "
            "backward; record the program without its checkpointing");
  trace::Trace timeless = in_scopes({""});
  timeless.has_time = false;
  EXPECT_EQ(refusal(timeless),
            "expected events with times, which say what a stage costs; found a trace without a "
            "clock");
}

TEST(ChainOf, RefusesStagesThatAreNoChain) {
  const auto twice = in_scopes(
      {"forward/Net/h.0", "forward/Net/h.1", "forward/Net/h.0", "backward/h.1", "backward/h.0"});
  EXPECT_EQ(refusal(twice),
            "expected stages that run one after the other, found that h.0 works forward again "
            "after h.1 (event 6); choose modules that do not overlap with --stages");
  const auto frozen = in_scopes({"forward/Net/h.0", "forward/Net/h.1", "backward/h.1"});
  EXPECT_EQ(refusal(frozen),
            "expected a backward of each stage, in the reverse order of forward: found h.1 where "
            "h.0 was expected (2 stages forward, 1 backward); name modules that are trained with "
            "--stages");
  const auto listless =
      in_scopes({"forward/Net/stem", "forward/Net/layer1.0", "forward/Net/layer1.1",
                 "forward/Net/head.fc", "forward/Net/head.norm", "backward/head"});
  EXPECT_EQ(refusal(listless),
            "expected a list of modules (h.0, h.1, ...) that allocates at least half of the bytes "
            "of the forward pass, found layer1.* (2 modules, 40 % of the bytes); name the modules "
            "that follow one another: --stages 'layer*.*'");
  EXPECT_EQ(refusal(listless, "blocks.*"),
            "expected modules that match --stages 'blocks.*', found none in the forward pass");
}

}  // namespace
}  // namespace vram::plan
