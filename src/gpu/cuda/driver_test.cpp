// Opening the driver: what may be at a path, and the errors for it.
#include "gpu/cuda/driver.hpp"

#include "gpu/testing/fake_cuda.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace vram::gpu::cuda {
namespace {

using testing::HasSubstr;

class DriverApiTest : public testing::Test {
 protected:
  void SetUp() override { fake_cuda_reset(1, size_t{64} << 20); }
};

TEST_F(DriverApiTest, StartsTheDriverOnceItIsComplete) {
  const Result<DriverApi> driver = DriverApi::load(fake_cuda_path());
  ASSERT_TRUE(driver.has_value()) << driver.error().message;
  EXPECT_EQ(fake_cuda_calls("cuInit"), 1u);
  int count = 0;
  EXPECT_EQ(driver->device_get_count(&count), kSuccess);
  EXPECT_EQ(count, 1);
}

TEST_F(DriverApiTest, FindsItAgain) {
  const Result<DriverApi> first = DriverApi::load(fake_cuda_path());
  const Result<DriverApi> second = DriverApi::load(fake_cuda_path());
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ(first->mem_create, second->mem_create);
}

TEST_F(DriverApiTest, AFileThatIsNotThereIsNamedWithTheReason) {
  const Result<DriverApi> driver = DriverApi::load("/nonexistent/libcuda.so.1");
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, Code::kNotFound);
  EXPECT_THAT(driver.error().message, HasSubstr("as /nonexistent/libcuda.so.1, found"));
  EXPECT_THAT(driver.error().message, HasSubstr("No such file or directory"));
  EXPECT_THAT(driver.error().message, HasSubstr("install"));
  EXPECT_EQ(driver.error().message.find('\n'), std::string::npos);
}

TEST_F(DriverApiTest, ALibraryThatIsNoDriverIsToldByWhatItLacks) {
  const Result<DriverApi> driver = DriverApi::load("libc.so.6");
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, Code::kUnsupported);
  EXPECT_THAT(driver.error().message, HasSubstr("libc.so.6, found a library without cuInit"));
}

TEST_F(DriverApiTest, AMachineWithoutAGpuIsToldSo) {
  fake_cuda_reset(0, 0);
  const Result<DriverApi> driver = DriverApi::load(fake_cuda_path());
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, Code::kNotFound);
  EXPECT_THAT(driver.error().message, HasSubstr("cuInit answers CUDA_ERROR_NO_DEVICE (100)"));
  EXPECT_THAT(driver.error().message, HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST_F(DriverApiTest, ADriverThatDoesNotStartIsToldByItsAnswer) {
  fake_cuda_fail_nth("cuInit", 1, kErrorSystemDriverMismatch);
  const Result<DriverApi> mismatch = DriverApi::load(fake_cuda_path());
  ASSERT_FALSE(mismatch.has_value());
  EXPECT_EQ(mismatch.error().code, Code::kUnsupported);
  EXPECT_THAT(mismatch.error().message, HasSubstr("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"));
  EXPECT_THAT(mismatch.error().message, HasSubstr("reboot"));
  fake_cuda_fail_nth("cuInit", 1, 777);
  const Result<DriverApi> unknown = DriverApi::load(fake_cuda_path());
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("an error without a name (777)"));
}

TEST(StatusOfTest, EveryAnswerHasOneMeaning) {
  struct Meaning {
    int result;
    Status status;
    bool is_lost;
  };
  constexpr std::array kMeanings = {
      Meaning{0, Status::kOk, false},
      Meaning{1, Status::kInvalidValue, false},
      Meaning{2, Status::kOutOfMemory, false},
      Meaning{4, Status::kFault, true},
      Meaning{101, Status::kInvalidValue, false},
      Meaning{200, Status::kInvalidValue, false},
      Meaning{201, Status::kInvalidValue, false},
      Meaning{208, Status::kFault, false},
      Meaning{214, Status::kFault, true},
      Meaning{400, Status::kInvalidValue, false},
      Meaning{600, Status::kNotReady, false},
      Meaning{700, Status::kFault, true},
      Meaning{719, Status::kFault, true},
      Meaning{801, Status::kNotSupported, false},
      Meaning{900, Status::kNotReady, false},
      Meaning{906, Status::kNotReady, false},
      Meaning{999, Status::kFault, false},
  };
  for (const Meaning& meaning : kMeanings) {
    const auto result = static_cast<CUresult>(meaning.result);
    EXPECT_EQ(status_of(result), meaning.status) << meaning.result;
    EXPECT_EQ(is_device_lost(result), meaning.is_lost) << meaning.result;
  }
}

}  // namespace
}  // namespace vram::gpu::cuda
