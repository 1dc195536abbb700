// Names: what was said counts for a block's whole life; what was not follows from scopes.
#include "explain/names/names.hpp"

#include "base/bytes.hpp"
#include "explain/explain.hpp"
#include "explain/site/site.hpp"
#include "explain/testing/recording.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace vram::explain {
namespace {

constexpr uint64_t kBase = uint64_t{1} << 40;

// A recording whose events say in which scopes they happened; blocks are numbered and never share
// an address.
class Scoped : public testing::Recording {
 public:
  Scoped() { segment(kBase, kGiB); }
  Scoped& in(std::string_view path) {
    path_ = path;
    return *this;
  }
  Scoped& alloc(uint64_t number, uint64_t bytes = kMiB) {
    testing::Recording::alloc(address(number), bytes);
    return with(path_, {});
  }
  Scoped& free(uint64_t number) {
    complete(address(number), kMiB);
    return with(path_, {});
  }
  Scoped& name(uint64_t number, uint64_t offset, uint64_t bytes, std::string_view text,
               std::string_view category) {
    add(trace::EventKind::kAnnotate, address(number) + offset, bytes);
    return with(text, category);
  }
  static uint64_t address(uint64_t number) { return kBase + number * 4 * kMiB; }

  // What the block is called that was allocated as the n-th.
  [[nodiscard]] std::vector<std::string> labels() {
    const History history = replay_history(trace(), device());
    const Names names = find_names(trace(), device(), history);
    std::vector<std::string> all;
    for (uint32_t id = 0; id < history.lifetimes.size(); ++id)
      all.push_back(names.text(names.label(id)));
    return all;
  }

 private:
  Scoped& with(std::string_view metadata, std::string_view category) {
    trace::Tables& t = trace().tables;
    trace().events[trace().events.size() - 1].context = t.contexts.intern(
        {.user_metadata = t.strings.intern(metadata), .category = t.strings.intern(category)});
    return *this;
  }
  std::string_view path_;
};

using Labels = std::vector<std::string>;

TEST(ScopePath, TheInnermostPartCounts) {
  const std::string longest = "forward/" + std::string(trace::kMaxNameBytes, 'x');
  EXPECT_EQ(parse_scope_path(longest + "/backward/y").owner.size(), trace::kMaxNameBytes - 8);
  const ScopePath plain = parse_scope_path("forward/layers.7.mlp");
  EXPECT_EQ(plain.part, StepPart::kForward);
  EXPECT_EQ(plain.owner, "layers.7.mlp");
  EXPECT_EQ(plain.extent, "forward/layers.7.mlp");
  EXPECT_EQ(parse_scope_path("train/forward/a/forward/a.b").owner, "a.b");
  EXPECT_EQ(parse_scope_path("forward/GPT/layers.7/layers.7.mlp").owner, "layers.7.mlp");
  EXPECT_EQ(parse_scope_path("forward/GPT/layers/layersnorm").owner, "GPT/layers/layersnorm");
  const ScopePath backward = parse_scope_path("backward/layers.7/backward/layers.7.mlp");
  EXPECT_EQ(backward.owner, "layers.7.mlp");
  EXPECT_EQ(backward.extent, "backward");
  EXPECT_EQ(parse_scope_path("backward/x/forward/y").part, StepPart::kRecompute);
  EXPECT_EQ(parse_scope_path("optimizer").owner, "optimizer");
  EXPECT_EQ(parse_scope_path("forwarding/x").part, StepPart::kNone);
  EXPECT_EQ(parse_scope_path("").part, StepPart::kNone);
}

TEST(Names, WhatLivesLongerThanItsForwardScopeIsAnActivation) {
  Scoped r;
  r.in("forward/a").alloc(0).alloc(1).in("forward/a/dropout").alloc(2).in("forward/a").free(1);
  r.in("forward/b").alloc(3).free(2).in("backward/b").free(3).free(0);
  EXPECT_EQ(r.labels(), (Labels{"a · activation", "a · temporary", "a/dropout · activation",
                                "b · activation"}));
}

TEST(Names, WhatLivesLongerThanBackwardIsAGradientAndAfterTheOptimizerItsState) {
  Scoped r;
  r.in("backward/b").alloc(0).alloc(1).in("backward/a").alloc(2).free(1);
  r.in("optimizer").alloc(3).alloc(4).free(3).free(0).in("").alloc(5);
  EXPECT_EQ(r.labels(), (Labels{"b · gradient", "b · temporary", "a · gradient",
                                "optimizer · temporary", "optimizer · optimizer state", ""}));
}

TEST(Names, WhatIsSaidCountsForTheWholeLifeAndNoLonger) {
  Scoped r;
  r.in("forward/a").alloc(0).in("").alloc(1).name(0, 0, 512, "w", "parameter");
  r.free(0).alloc(0).name(1, 512, 64, "m", "optimizer state").name(7, 0, 64, "nobody", "gradient");
  EXPECT_EQ(r.labels(), (Labels{"w · parameter", "m · optimizer state", ""}));
}

// A flat parameter: many names in one block.
TEST(Names, OfManyNamesInABlockTheLargestCounts) {
  Scoped r;
  r.alloc(0).name(0, 0, 512, "a", "parameter").name(0, 512, 4096, "b", "parameter");
  r.name(0, 8192, 100, "c", "parameter");
  r.alloc(1).name(1, 0, 512, "old", "gradient").name(1, 0, 512, "new", "gradient");
  EXPECT_EQ(r.labels(), (Labels{"b · parameter", "new · gradient"}));
}

// Names that a small file shares, each with a category of its own.
TEST(Names, LongNamesThatBlocksShareAreLimited) {
  Scoped r;
  const std::string shared(8 << 10, 'w');
  for (uint64_t i = 0; i < 6000; ++i)
    r.in("").alloc(i).name(i, 0, 512, shared, "category " + std::to_string(i));
  uint64_t bytes = 0;
  for (const std::string& label : r.labels()) bytes += label.size();
  EXPECT_GT(bytes, kMaxNamesBytes / 2);
  EXPECT_LT(bytes, kMaxNamesBytes + uint64_t{6000} * 80);
}

TEST(Names, TheReportHasCategoriesAndHoldersWithNames) {
  Scoped r;
  r.in("").alloc(0).name(0, 0, kMiB, "w", "parameter");
  r.in("data/load").alloc(3, kMiB).in("").alloc(4, 4096).alloc(5, 4096);
  r.in("forward/a").alloc(1, 2 * kMiB).in("forward/b").alloc(2, 512).free(2);
  const Report report = explain(r.trace()).value();
  const State& state = report.devices[0].at_peak;
  const auto amounts = [&](Dimension by) {
    std::vector<std::pair<std::string, uint64_t>> all;
    for (const Breakdown& breakdown : state.breakdowns) {
      if (breakdown.by != by) continue;
      for (const Holder& h : breakdown.holders) all.emplace_back(h.name, h.requested_bytes);
    }
    return all;
  };
  using Amounts = std::vector<std::pair<std::string, uint64_t>>;
  EXPECT_EQ(amounts(Dimension::kCategory), (Amounts{{"activation", 2 * kMiB},
                                                    {"other", kMiB + 8192},
                                                    {"parameter", kMiB},
                                                    {"temporary", 512}}));
  EXPECT_EQ(amounts(Dimension::kUserFrame), (Amounts{{"a · activation", 2 * kMiB},
                                                     {"data/load", kMiB},
                                                     {"w · parameter", kMiB},
                                                     {"outside all scopes", 8192},
                                                     {"b · temporary", 512}}));
  EXPECT_EQ(state.named_bytes, 3 * kMiB + 512);
}

TEST(Names, ARecordingWithoutNamesIsToldAsBefore) {
  Scoped r;
  r.in("").alloc(0).alloc(1, 512);
  const Report report = explain(r.trace()).value();
  const State& state = report.devices[0].at_peak;
  EXPECT_FALSE(state.named_bytes);
  for (const Breakdown& breakdown : state.breakdowns) {
    EXPECT_NE(breakdown.by, Dimension::kCategory);
    if (breakdown.by == Dimension::kUserFrame) {
      EXPECT_EQ(breakdown.holders[0].name, "1 MiB blocks");
    }
  }
}

}  // namespace
}  // namespace vram::explain
