#include "record/board_reader.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <string_view>
#include <unistd.h>

namespace vram::record {
namespace {

// Postings take less than a microsecond: a reader that finds one in the making this often finds one
// whose owner is stopped or dead.
constexpr int kTries = 64;

// The fences keep the three reads in order; the kernel's copy is made of plain ones.
std::optional<BoardFigures> read_figures(const PageFile& file) {
  for (int tries = 0; tries < kTries; ++tries) {
    uint64_t before = 0;
    uint64_t after = 1;
    BoardFigures figures;
    if (!file.read_at(&before, sizeof before, offsetof(BoardPage, sequence))) return std::nullopt;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!file.read_at(&figures, sizeof figures, offsetof(BoardPage, figures))) return std::nullopt;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!file.read_at(&after, sizeof after, offsetof(BoardPage, sequence))) return std::nullopt;
    if (before != after || before % 2 != 0) continue;
    if (before == 0) return std::nullopt;
    figures.scope[kScopeBytes - 1] = '\0';
    figures.device_count = std::min<uint64_t>(figures.device_count, kBoardDevices);
    return figures;
  }
  return std::nullopt;
}

}  // namespace

Result<BoardReading> read_board(const std::string& folder, uint32_t pid) {
  VRAM_TRY_ASSIGN(const auto file, PageFile::open(folder, pid));
  return BoardReading{file.owner(), file.owner_state(), file.command(), read_figures(file)};
}

std::optional<BoardFigures> read_living(const std::string& folder, uint32_t pid,
                                        uint64_t start_ticks, uint64_t pid_namespace) {
  const auto file = PageFile::open(folder, pid);
  const bool is_its_own = file && file->owner().start_ticks == start_ticks &&
                          file->owner().pid_namespace == pid_namespace;
  return is_its_own ? read_figures(*file) : std::nullopt;
}

std::vector<uint32_t> list_board(const std::string& folder) {
  return list_small_board(folder, std::numeric_limits<size_t>::max())
      .value_or(std::vector<uint32_t>());
}

std::optional<std::vector<uint32_t>> list_small_board(const std::string& folder, size_t max_files) {
  std::vector<uint32_t> pids;
  std::error_code error;
  size_t files = 0;
  const std::string own = fmt::format(".{}", own_pid_namespace());
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (++files > max_files) return std::nullopt;
    const std::string name = at->path().filename();
    uint32_t pid = 0;
    const char* const name_end = name.data() + name.size();
    const auto [last, failure] = std::from_chars(name.data(), name_end, pid);
    const bool is_page = last == name_end || std::string_view(last, name_end) == own;
    if (failure == std::errc{} && is_page) pids.push_back(pid);
  }
  if (error) return std::nullopt;
  std::ranges::sort(pids);
  const auto twice = std::ranges::unique(pids);
  pids.erase(twice.begin(), twice.end());
  return pids;
}

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
