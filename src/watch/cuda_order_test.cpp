// CUDA's numbers against the management library's: what CUDA_VISIBLE_DEVICES makes of them, and
// where nothing is known.
#include "watch/cuda_order.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vram::watch {
namespace {

class CudaOrderTest : public ::testing::Test {
 protected:
  CudaOrderTest() {
    for (const char* const uuid : {"GPU-aa11", "GPU-aa22", "GPU-bb33"}) {
      Device device;
      device.identity.name = "H200";
      device.identity.uuid = uuid;
      devices_.push_back(device);
    }
    process_.cuda.is_known = true;
  }
  std::optional<uint32_t> device_of(uint64_t ordinal, const std::string& visible) {
    process_.cuda.visible_devices = visible;
    return device_of_cuda(ordinal, process_, devices_);
  }
  std::optional<uint32_t> device_of(uint64_t ordinal) {
    return device_of_cuda(ordinal, process_, devices_);
  }
  std::vector<Device> devices_;
  KnownProcess process_;
};

TEST_F(CudaOrderTest, WithoutTheVariableTheOrderIsTheSame) {
  EXPECT_EQ(device_of(0), 0U);
  EXPECT_EQ(device_of(2), 2U);
  EXPECT_EQ(device_of(3), std::nullopt);
}

TEST_F(CudaOrderTest, NumbersPickAndReorder) {
  EXPECT_EQ(device_of(0, "2,0"), 2U);
  EXPECT_EQ(device_of(1, "2, 0"), 0U);
  EXPECT_EQ(device_of(2, "2,0"), std::nullopt);
  EXPECT_EQ(device_of(0, "7"), std::nullopt);
}

TEST_F(CudaOrderTest, UuidsPickByTheirBeginning) {
  EXPECT_EQ(device_of(0, "GPU-bb33"), 2U);
  EXPECT_EQ(device_of(1, "GPU-b,GPU-aa2"), 1U);
  EXPECT_EQ(device_of(0, "GPU-aa"), std::nullopt);  // two begin so
  EXPECT_EQ(device_of(0, "GPU-cc"), std::nullopt);
}

TEST_F(CudaOrderTest, AtTheFirstThatIsNoneCudaStops) {
  EXPECT_EQ(device_of(0, "1,-1,2"), 1U);
  EXPECT_EQ(device_of(1, "1,-1,2"), std::nullopt);
  EXPECT_EQ(device_of(2, "1,-1,2"), std::nullopt);
  EXPECT_EQ(device_of(0, ""), std::nullopt);
  EXPECT_EQ(device_of(0, "MIG-1234"), std::nullopt);
  EXPECT_EQ(device_of(0, "99999999999999999999"), std::nullopt);
}

TEST_F(CudaOrderTest, UnequalDevicesHaveAnOrderOnlyWhereItIsSaid) {
  devices_[1].identity.name = "A30";
  EXPECT_EQ(device_of(0), std::nullopt);
  EXPECT_EQ(device_of(0, "2"), std::nullopt);
  EXPECT_EQ(device_of(0, "GPU-bb33"), 2U);
  process_.cuda.visible_devices.reset();
  process_.cuda.device_order = "PCI_BUS_ID";
  EXPECT_EQ(device_of(1), 1U);
}

TEST_F(CudaOrderTest, ContainersAndInstancesCountOtherwise) {
  devices_[1].health.is_mig = true;
  EXPECT_EQ(device_of(0), std::nullopt);
  devices_[1].health.is_mig = false;
  EXPECT_EQ(device_of(0), 0U);
  process_.facts.edit().container = Container{"docker", std::string(64, 'a')};
  EXPECT_EQ(device_of(0), std::nullopt);
  EXPECT_EQ(device_of(0, "GPU-bb33"), 2U);
}

TEST_F(CudaOrderTest, OtherMakersDevicesAreNotCounted) {
  devices_[0].identity.vendor = gpu::Vendor::kAmd;
  EXPECT_EQ(device_of(0), 1U);
  EXPECT_EQ(device_of(1, "0,1"), 2U);
}

TEST_F(CudaOrderTest, WithoutTheEnvironmentNothingIsKnown) {
  process_.cuda.is_known = false;
  EXPECT_EQ(device_of(0), std::nullopt);
}

}  // namespace
}  // namespace vram::watch
