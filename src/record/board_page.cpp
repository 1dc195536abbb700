#include "record/board_page.hpp"

#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/process_stat.hpp"

#include <array>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::record {

std::string board_folder_of(uint32_t uid) {
  return fmt::format("{}/vram-{}", kSharedMemoryFolder, uid);
}

std::string second_board_folder_of(uint32_t uid) {
  const std::string own = uid == geteuid() ? trusted_environment("XDG_RUNTIME_DIR") : "";
  return own.starts_with('/') ? own + "/vram" : fmt::format("{}/{}/vram", kRuntimeFolders, uid);
}

BoardOwner this_process() {
  BoardOwner owner;
  owner.pid = static_cast<uint32_t>(getpid());
  owner.uid = geteuid();
  owner.start_ticks = start_ticks_of(owner.pid);
  owner.pid_namespace = own_pid_namespace();
  return owner;
}

uint64_t own_pid_namespace() {
  struct stat space{};
  return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

uint64_t start_ticks_of(uint32_t pid) {
  auto file = InputFile::open(fmt::format("/proc/{}/stat", pid));
  if (!file) return 0;
  std::array<std::byte, 1024> bytes{};
  const auto size = file->read(bytes);
  if (!size) return 0;
  const auto stat = parse_process_stat({reinterpret_cast<const char*>(bytes.data()), *size});
  return stat && !stat->has_ended ? stat->start_ticks : 0;
}

}  // namespace vram::record
