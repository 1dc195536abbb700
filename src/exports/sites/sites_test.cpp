#include "exports/sites/sites.hpp"

#include "explain/explain.hpp"
#include "explain/testing/recording.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace vram::exports {
namespace {

// Fourteen blocks of 2^60 bytes are more than a signed number holds, which profiles have.
TEST(Sites, SumsAreLimited) {
  constexpr uint64_t kBytes = uint64_t{1} << 60;
  explain::testing::Recording made;
  for (uint64_t i = 0; i < 14; ++i) {
    made.segment(4096 + i * kBytes, kBytes);
    made.alloc(4096 + i * kBytes, kBytes);
  }
  auto report = explain::explain(made.trace());
  ASSERT_TRUE(report) << report.error().message;
  const reports::Recording recording(std::move(made.trace()), std::move(*report));
  const auto devices = find_sites(recording);
  ASSERT_EQ(devices.size(), 1U);
  ASSERT_EQ(devices[0].sites.size(), 1U);
  EXPECT_EQ(devices[0].sites[0].peak.bytes, INT64_MAX);
  EXPECT_EQ(devices[0].sites[0].end.bytes, INT64_MAX);
  EXPECT_EQ(devices[0].sites[0].growth.bytes, INT64_MAX);
  EXPECT_EQ(devices[0].sites[0].peak.count, 14);
}

}  // namespace
}  // namespace vram::exports
