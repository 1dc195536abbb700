// Recordings that start and stop leave nothing behind in the process.
#include "record/testing/recorder_fixture.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace vram::record {
namespace {

class LeaksTest : public RecorderFixture {};

long open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long all = 0;
  long resident = 0;
  file >> all >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST_F(LeaksTest, TwoThousandRecordingsLeaveNoDescriptorAndNoMemory) {
  const auto record_once = [this] {
    start({.path = path()});
    for (uint64_t i = 1; i <= 64; ++i) alloc(0x1000 * i);
    ASSERT_TRUE(Recorder::stop());
  };
  for (int i = 0; i < 200; ++i) record_once();
  const long descriptors = open_descriptors();
  const long resident = resident_kib();
  for (int i = 0; i < 2000; ++i) record_once();
  EXPECT_EQ(open_descriptors(), descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(resident_kib() - resident, 2048) << "KiB of memory more";
#endif
}

}  // namespace
}  // namespace vram::record
