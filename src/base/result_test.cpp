#include "base/result.hpp"

#include <gtest/gtest.h>

namespace vram {
namespace {

Result<int> number(bool is_there) {
  if (is_there) return 7;
  return fail(Code::kNotFound, "expected a number in {}, found none", "run.txt");
}

TEST(ResultTest, ItsValueIsThereOrTheErrorIsThrownWithItsMessage) {
  EXPECT_EQ(number(true).value(), 7);
  try {
    (void)number(false).value();
    FAIL() << "nothing was thrown";
  } catch (const tl::bad_expected_access<Error>& thrown) {
    EXPECT_STREQ(thrown.what(), "expected a number in run.txt, found none");
    EXPECT_EQ(thrown.error().code, Code::kNotFound);
  }
}

}  // namespace
}  // namespace vram
