#include "gpu/number_formats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vram::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

const std::optional<std::vector<std::string>>& formats_of(const std::string& capability,
                                                          const std::string& name = "any") {
  DeviceIdentity identity;
  identity.name = name;
  identity.compute_capability = capability;
  return tensor_core_formats(identity);
}

TEST(NumberFormats, FollowNvidiasTable) {
  EXPECT_THAT(formats_of("7.0"), Optional(ElementsAre("FP16")));
  EXPECT_THAT(formats_of("8.0"), Optional(ElementsAre("FP16", "BF16", "TF32", "INT8", "INT4")));
  EXPECT_THAT(formats_of("8.6"), Optional(ElementsAre("FP16", "BF16", "TF32", "INT8", "INT4")));
  EXPECT_THAT(formats_of("9.0"), Optional(ElementsAre("FP16", "BF16", "TF32", "FP8", "INT8")));
  EXPECT_THAT(formats_of("10.7"),
              Optional(ElementsAre("FP16", "BF16", "TF32", "FP8", "FP6", "FP4")));
  EXPECT_THAT(formats_of("12.0"),
              Optional(ElementsAre("FP16", "BF16", "TF32", "FP8", "FP6", "FP4", "INT8")));
}

// The guide lists INT8 for it, which it multiplies more slowly than FP16.
TEST(NumberFormats, OfBlackwellUltraInt8IsNotFast) {
  EXPECT_THAT(formats_of("10.3"),
              Optional(ElementsAre("FP16", "BF16", "TF32", "FP8", "FP6", "FP4")));
}

TEST(NumberFormats, DevicesBeforeVoltaHaveNoTensorCores) {
  EXPECT_THAT(formats_of("6.1"), Optional(IsEmpty()));
  EXPECT_THAT(formats_of("3.5"), Optional(IsEmpty()));
}

TEST(NumberFormats, OfTuringTheNameDecides) {
  EXPECT_THAT(formats_of("7.5", "NVIDIA GeForce RTX 2080 Ti"),
              Optional(ElementsAre("FP16", "INT8", "INT4")));
  EXPECT_THAT(formats_of("7.5", "Tesla T4"), Optional(ElementsAre("FP16", "INT8", "INT4")));
  for (const char* name : {"NVIDIA GeForce GTX 1660", "NVIDIA T1000", "NVIDIA T400 4GB"})
    EXPECT_EQ(formats_of("7.5", name), std::nullopt) << name;
}

TEST(NumberFormats, WhatTheTableDoesNotHaveIsUnknown) {
  for (const char* capability : {"13.0", "9.9", "", "x", "-1.0"})
    EXPECT_EQ(formats_of(capability), std::nullopt) << capability;
  EXPECT_EQ(tensor_core_formats(DeviceIdentity()), std::nullopt);
}

}  // namespace
}  // namespace vram::gpu
