#include "gpu/nvml/xids.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vram::gpu::nvml {
namespace {

TEST(Xids, EachStandsOnceAndSaysWhatItIsAndWhatToDo) {
  EXPECT_TRUE(std::ranges::is_sorted(xid_meanings(), std::ranges::less_equal(), &XidMeaning::xid));
  for (const XidMeaning& meaning : xid_meanings()) {
    EXPECT_EQ(meaning_of_xid(meaning.xid), &meaning);
    EXPECT_FALSE(meaning.what.empty()) << meaning.xid;
    EXPECT_FALSE(meaning.then.empty()) << meaning.xid;
  }
}

TEST(Xids, ThoseThatAreKnown) {
  ASSERT_NE(meaning_of_xid(79), nullptr);
  EXPECT_EQ(meaning_of_xid(79)->what, "the GPU fell off the bus");
  EXPECT_EQ(meaning_of_xid(79)->gravity, XidSeverity::kBroken);
  EXPECT_EQ(meaning_of_xid(31)->gravity, XidSeverity::kProgram);
  EXPECT_EQ(meaning_of_xid(0), nullptr);
  EXPECT_EQ(meaning_of_xid(UINT64_MAX), nullptr);
}

}  // namespace
}  // namespace vram::gpu::nvml
