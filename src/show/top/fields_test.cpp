#include "show/top/fields.hpp"

#include "base/bytes.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::show::top {
namespace {

using ::testing::HasSubstr;

// Ann's trainer: GPU 2, 3 GiB of which 1 GiB is cached, 50 % busy, in a pod.
watch::Process trainer() {
  watch::Process process = testing::user_process(4'711, "ann", "/usr/bin/python train.py --lr 0.1");
  process.facts.edit().pod = {.uid = "u", .name = "trainer-0", .space = "ml"};
  process.scope = "train/backward";
  watch::Use use;
  use.device = 2;
  use.process.is_compute = true;
  use.process.used_bytes = 3 * kGiB;
  use.process.busy_percent = 50;
  use.allocator = watch::AllocatorFigures();
  use.allocator->cached_bytes = kGiB;
  process.uses = {use};
  return process;
}

bool matches(std::string_view words) {
  const watch::Process process = trainer();
  return Filter::parse(words).value().matches(process, process.uses[0]);
}

TEST(Filter, WordsThatHold) {
  for (const char* const words : {"",
                                  "  ",
                                  "user:ann",
                                  "user:ANN",
                                  "user:bo,ann",
                                  "user:1000",
                                  "gpu:2",
                                  "gpu:0,2",
                                  "pid:4711",
                                  "type:compute",
                                  "in:ml/trainer",
                                  "scope:backward",
                                  "mem>2G",
                                  "mem>=3GiB",
                                  "mem<=3GiB",
                                  "mem:3GiB",
                                  "mem=3G",
                                  "mem<3.5G",
                                  "busy>49",
                                  "busy<51%",
                                  "cached>=1G",
                                  "train",
                                  "TRAIN.PY",
                                  "ann",
                                  "trainer-0",
                                  "!user:bo",
                                  "!mem>4G",
                                  "!tensorboard",
                                  "user:ann gpu:2 mem>1G train"})
    EXPECT_TRUE(matches(words)) << words;
}

TEST(Filter, ClientsOfMpsAreATypeOfTheirOwn) {
  watch::Process process = trainer();
  process.uses[0].process.is_mps = true;
  EXPECT_TRUE(Filter::parse("type:mps").value().matches(process, process.uses[0]));
  EXPECT_TRUE(Filter::parse("type:compute").value().matches(process, process.uses[0]));
  EXPECT_EQ(info_of(Field::kType).text(process, process.uses[0]), "M+C");
}

TEST(Filter, WordsThatDoNot) {
  for (const char* const words :
       {"user:an", "user:bo", "gpu:1", "gpu:22", "pid:471", "type:graphics", "type:mps",
        "in:serving", "mem>3G", "mem<3G", "busy>50", "busy<50", "cached>1G", "tensorboard",
        "!train", "user:ann gpu:1", "train serve"})
    EXPECT_FALSE(matches(words)) << words;
}

TEST(Filter, WhatIsUnknownHoldsForNoComparison) {
  for (const char* const words : {"host>0", "host<1G", "host:0", "allocated>=0", "reserved<1T"})
    EXPECT_FALSE(matches(words)) << words;
  EXPECT_TRUE(matches("!host>1G"));
}

TEST(Filter, SaysWhatIsWrong) {
  for (const char* const words :
       {"usr:ann", "mem>x", "mem>", "busy>1.5", "user>ann", "train foo:bar"}) {
    const auto filter = Filter::parse(words);
    ASSERT_FALSE(filter) << words;
    EXPECT_THAT(filter.error().message, HasSubstr("expected")) << words;
  }
  EXPECT_THAT(Filter::parse("usr:ann").error().message, HasSubstr("'usr:ann'"));
}

}  // namespace
}  // namespace vram::show::top
