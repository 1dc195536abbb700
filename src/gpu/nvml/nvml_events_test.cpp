// NvmlEvents on the fake library: an event is a line "xid" that the scenario gets.
#include "gpu/nvml/nvml_events.hpp"

#include "gpu/testing/fake_libraries.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace vram::gpu::nvml {
namespace {

using namespace std::chrono_literals;
using gpu::testing::Environment;
using gpu::testing::fake_nvml;
using gpu::testing::Scenario;
using ::testing::ElementsAre;

class NvmlEventsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static Result<NvmlEvents> open() { return NvmlEvents::open(fake_nvml(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Generations, NvmlEventsTest, ::testing::Values("1", "2", "3"));

TEST_P(NvmlEventsTest, TellsWhatHappensFromNowOn) {
  const Scenario scenario("device 0\nxid 13\ndevice 1\n");
  NvmlEvents events = open().value();
  EXPECT_THAT(events.watched(), ElementsAre(0, 1));
  EXPECT_EQ(events.wait(0ms).value(), std::nullopt);
  scenario.change("device 0\nxid 13\ndevice 1\nxid 31 2 0\nxid 79\n");
  const auto first = events.wait(1s).value();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->xid, 31u);
  EXPECT_EQ(first->device, 1u);
  EXPECT_EQ(first->gpu_instance, GetParam() == "1" ? std::nullopt : std::optional(2u));
  EXPECT_EQ(first->compute_instance, GetParam() == "1" ? std::nullopt : std::optional(0u));
  const auto second = events.wait(1s).value();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->xid, 79u);
  EXPECT_EQ(second->gpu_instance, std::nullopt);
  EXPECT_EQ(events.wait(0ms).value(), std::nullopt);
}

TEST_P(NvmlEventsTest, WaitsNoLongerThanAsked) {
  NvmlEvents events = open().value();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(events.wait(50ms).value(), std::nullopt);
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited, 50ms);
  EXPECT_LT(waited, 1s);
  EXPECT_EQ(events.wait(-5ms).value(), std::nullopt);
}

TEST_P(NvmlEventsTest, ALostDeviceIsAnError) {
  const Scenario scenario("device 0\ndevice 1\n");
  NvmlEvents events = open().value();
  scenario.change("device 0\ndevice 1\nlost\n");
  EXPECT_THAT(events.wait(1s).error().message, ::testing::HasSubstr("GPU is lost (15)"));
}

TEST_P(NvmlEventsTest, LetsGoOfTheLibrary) {
  const NvmlApi api = NvmlApi::load(fake_nvml(GetParam())).value();
  unsigned count = 0;
  {
    NvmlEvents first = open().value();
    const NvmlEvents moved = std::move(first);
    EXPECT_EQ(api.device_get_count(&count), kSuccess);
  }
  EXPECT_EQ(api.device_get_count(&count), kUninitialized);
}

TEST_P(NvmlEventsTest, DevicesWithoutEventsAreLeftOut) {
  const Scenario scenario("device 0\nfail nvmlDeviceRegisterEvents 3\ndevice 1\n");
  EXPECT_THAT(open().value().watched(), ElementsAre(1));
  scenario.change("device 0\nfail nvmlDeviceRegisterEvents 3\n");
  EXPECT_EQ(open().error().code, Code::kUnsupported);
  const Environment broken("FAKE_NVML_FAIL", "nvmlEventSetCreate=3");
  EXPECT_EQ(open().error().code, Code::kUnsupported);
}

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
