#include "base/shared.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vram {
namespace {

TEST(SharedTest, CopiesAreTheSameUntilOneIsEdited) {
  Shared<std::string> one(std::string("a"));
  const Shared<std::string> other = one;
  EXPECT_TRUE(one.is_same(other));
  one.edit() += "b";
  EXPECT_EQ(*one, "ab");
  EXPECT_EQ(*other, "a");
  EXPECT_FALSE(one.is_same(other));
}

TEST(SharedTest, IsNeverEmpty) { EXPECT_TRUE(Shared<std::string>()->empty()); }

}  // namespace
}  // namespace vram
