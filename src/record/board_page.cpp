#include "record/board_page.hpp"

#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/result.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::record {

std::string answered_recording(const std::string& folder, uint32_t pid, uint64_t number) {
  return fmt::format("{}/recording-{}-{}.vtrace", folder, pid, number);
}

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

Result<PageFile> PageFile::open(const std::string& folder, uint32_t pid, Access access) {
  const std::string path = fmt::format("{}/{}", folder, pid);
  auto first = open_path(path, pid, access);
  const uint64_t own = own_pid_namespace();
  if (first && first->owner().pid_namespace == own) return first;
  auto second = open_path(fmt::format("{}.{}", path, own), pid, access);
  return second ? std::move(second) : std::move(first);
}

Result<PageFile> PageFile::open_path(const std::string& path, uint32_t pid, Access access) {
  const int direction = access == Access::kRead ? O_RDONLY : O_RDWR;
  // NONBLOCK: another program may have put a pipe there, without a writer.
  PageFile file(path,
                Descriptor(::open(path.c_str(), direction | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)));
  if (file.file_.number() < 0) {
    return fail(Code::kNotFound, "expected a page of process {} as {}, found none ({})", pid, path,
                std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  const struct stat page = file.facts();
  const std::string folder = path.substr(0, path.rfind('/'));
  struct stat owner{};
  if (stat(folder.c_str(), &owner) != 0 || !S_ISREG(page.st_mode) || page.st_uid != owner.st_uid) {
    return fail(Code::kBadInput, "expected {} to be a file of the folder's user", path);
  }
  VRAM_TRY(file.read_owner(pid));
  return file;
}

Result<> PageFile::read_owner(uint32_t pid) {
  BoardPage page;
  if (!read_at(&page, sizeof page, 0) || page.magic != kBoardMagic) {
    return fail(Code::kBadInput, "expected {} to be a page of vram's board, found something else",
                path_);
  }
  if (page.version != kBoardVersion) {
    return fail(Code::kUnsupported,
                "expected {} to be a page of version {}, found version {}: the process there uses "
                "another version of vram",
                path_, kBoardVersion, page.version);
  }
  if (page.owner.pid != pid) {
    return fail(Code::kBadInput, "expected {} to be the page of process {}, found that of {}",
                path_, pid, page.owner.pid);
  }
  page.command[sizeof page.command - 1] = '\0';
  owner_ = page.owner;
  command_ = page.command;
  return {};
}

OwnerState PageFile::owner_state() const {
  if (owner_.pid_namespace != own_pid_namespace()) return OwnerState::kOtherNamespace;
  return start_ticks_of(owner_.pid) == owner_.start_ticks ? OwnerState::kAlive : OwnerState::kDead;
}

struct stat PageFile::facts() const {
  struct stat facts{};
  if (fstat(file_.number(), &facts) != 0) return {};
  return facts;
}

bool PageFile::lock() const { return flock(file_.number(), LOCK_EX | LOCK_NB) == 0; }

bool PageFile::read_at(void* to, size_t bytes, size_t offset) const {
  return pread(file_.number(), to, bytes, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(bytes);
}

bool PageFile::write_at(const void* from, size_t bytes, size_t offset) const {
  return pwrite(file_.number(), from, bytes, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(bytes);
}

}  // namespace vram::record
