#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vram {
namespace {

TEST(Nearest, OnlyWhatIsNear) {
  const std::vector<std::string> names = {"report", "convert"};
  EXPECT_EQ(nearest("reprot", names), "report");
  EXPECT_EQ(nearest("convrt", names), "convert");
  EXPECT_EQ(nearest("dance", names), "");
  EXPECT_EQ(did_you_mean("reprot", names), ", did you mean 'report'?");
  EXPECT_EQ(did_you_mean("dance", names), "");
}

}  // namespace
}  // namespace vram
