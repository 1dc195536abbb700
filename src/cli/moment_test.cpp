#include "cli/moment.hpp"

#include <gtest/gtest.h>

namespace vram::cli {
namespace {

void expect(std::string_view text, MomentKind kind, uint64_t value) {
  const auto request = parse_moment(text);
  ASSERT_TRUE(request) << text;
  EXPECT_EQ(request->kind, kind) << text;
  EXPECT_EQ(request->value, value) << text;
}

TEST(Moment, EveryFormIsUnderstood) {
  expect("1.5s", MomentKind::kTime, 1'500'000'000);
  expect("250ms", MomentKind::kTime, 250'000'000);
  expect("event:1234", MomentKind::kEvent, 1234);
  expect("step:12", MomentKind::kStep, 12);
  expect("peak", MomentKind::kPeak, 0);
  expect("oom", MomentKind::kOom, 0);
  expect("oom:3", MomentKind::kOom, 3);
}

TEST(Moment, OthersAreRefusedWithTheFormsThatExist) {
  for (const char* text : {"", "step:", "step:x", "event:-1", "event:1.5", "noon", "-1s", "peak:1",
                           "oom:99999999999999999999"}) {
    const auto request = parse_moment(text);
    ASSERT_FALSE(request) << text;
    EXPECT_NE(request.error().message.find("step:N"), std::string::npos);
  }
}

}  // namespace
}  // namespace vram::cli
