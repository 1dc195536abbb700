#include "record/board_page.hpp"

#include "base/file.hpp"

#include <array>
#include <charconv>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::record {

std::string default_board_folder() { return fmt::format("/dev/shm/vram-{}", geteuid()); }

BoardOwner this_process() {
  BoardOwner owner;
  owner.pid = static_cast<uint32_t>(getpid());
  owner.uid = geteuid();
  owner.start_ticks = start_ticks_of(owner.pid);
  struct stat space{};
  if (stat("/proc/self/ns/pid", &space) == 0) owner.pid_namespace = space.st_ino;
  return owner;
}

uint64_t start_ticks_of(uint32_t pid) {
  auto file = InputFile::open(fmt::format("/proc/{}/stat", pid));
  if (!file) return 0;
  std::array<std::byte, 1024> bytes{};
  const auto size = file->read(bytes);
  if (!size) return 0;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), *size);
  // "7 (any name, with ) and spaces) S 1 …": what follows the last bracket begins with field 3.
  const size_t bracket = text.rfind(')');
  if (bracket == std::string_view::npos) return 0;
  text.remove_prefix(bracket + 1);
  for (int field = 3; field <= 22; ++field) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return 0;
    text.remove_prefix(space + 1);
  }
  uint64_t ticks = 0;
  std::from_chars(text.data(), text.data() + text.size(), ticks);
  return ticks;
}

}  // namespace vram::record
