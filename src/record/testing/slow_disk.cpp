#include "record/testing/slow_disk.hpp"

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace vram::record {
namespace {

bool is_recording(int descriptor) {
  std::array<char, 256> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), name.data(), name.size());
  return length > 0 &&
         std::string_view(name.data(), static_cast<size_t>(length)).ends_with(".vtrace");
}

}  // namespace

SlowDisk& disk() {
  static SlowDisk& one = *new SlowDisk;
  return one;
}

}  // namespace vram::record

extern "C" ssize_t write(int descriptor, const void* bytes, size_t count) {
  vram::record::SlowDisk& disk = vram::record::disk();
  if ((disk.delay_ms != 0 || disk.hangs) && vram::record::is_recording(descriptor)) {
    ++disk.hanging_calls;
    while (disk.hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --disk.hanging_calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(disk.delay_ms.load()));
  }
  return syscall(SYS_write, descriptor, bytes, count);
}
