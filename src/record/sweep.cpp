#include "record/sweep.hpp"

#include "record/board_reader.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace vram::record {
namespace {

// Dead for certain: a failure to read /proc must not look like a death.
bool is_dead(const BoardOwner& owner) {
  const uint64_t start = start_ticks_of(owner.pid);
  if (start != 0) return start != owner.start_ticks;
  return kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH;
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool may_be_removed(const PageFile& page) {
  return page.facts().st_uid == geteuid() && page.owner_state() == OwnerState::kDead &&
         is_dead(page.owner());
}

}  // namespace

bool remove_page(const std::string& folder, const PageFile& page) {
  const std::string aside = fmt::format("{}/.swept-{}-{}", folder, getpid(), page.owner().pid);
  if (renameat2(AT_FDCWD, page.path().c_str(), AT_FDCWD, aside.c_str(), RENAME_NOREPLACE) != 0)
    return false;
  struct stat found{};
  if (lstat(aside.c_str(), &found) == 0 && is_same_file(found, page.facts()))
    return unlink(aside.c_str()) == 0;
  (void)renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, page.path().c_str(), RENAME_NOREPLACE);
  return false;
}

Result<std::vector<uint32_t>> sweep_board(const std::string& folder) {
  struct stat facts{};
  if (lstat(folder.c_str(), &facts) != 0) return std::vector<uint32_t>{};
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid()) {
    return fail(Code::kIo, "expected {} to be a folder of user {}, found user {}: not swept",
                folder, geteuid(), facts.st_uid);
  }
  if (this_process().start_ticks == 0) {
    return fail(Code::kUnsupported,
                "/proc has no start times of processes, so dead and living ones cannot be "
                "distinguished: no page was removed");
  }
  std::vector<uint32_t> swept;
  for (const uint32_t pid : list_board(folder)) {
    const auto page = PageFile::open(folder, pid);
    if (page && may_be_removed(*page) && remove_page(folder, *page)) swept.push_back(pid);
  }
  return swept;
}

}  // namespace vram::record
