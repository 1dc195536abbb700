#include "record/board_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::record {
namespace {

// Postings take less than a microsecond: who finds one in the making this often finds one whose
// owner is stopped or dead.
constexpr int kTries = 64;

bool read_at(int file, void* to, size_t bytes, size_t offset) {
  return pread(file, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// The fences keep the three reads in order; the kernel's copy is made of plain ones.
std::optional<BoardFigures> read_figures(int file) {
  for (int tries = 0; tries < kTries; ++tries) {
    uint64_t before = 0;
    uint64_t after = 1;
    BoardFigures figures;
    if (!read_at(file, &before, sizeof before, offsetof(BoardPage, sequence))) return std::nullopt;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!read_at(file, &figures, sizeof figures, offsetof(BoardPage, figures))) return std::nullopt;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!read_at(file, &after, sizeof after, offsetof(BoardPage, sequence))) return std::nullopt;
    if (before != after || before % 2 != 0) continue;
    if (before == 0) return std::nullopt;
    figures.scope[kScopeBytes - 1] = '\0';
    figures.device_count = std::min<uint64_t>(figures.device_count, kBoardDevices);
    return figures;
  }
  return std::nullopt;
}

OwnerState state_of(const BoardOwner& owner) {
  if (owner.pid_namespace != this_process().pid_namespace) return OwnerState::kElsewhere;
  return start_ticks_of(owner.pid) == owner.start_ticks ? OwnerState::kAlive : OwnerState::kDead;
}

Result<BoardReading> read_page(int file, const std::string& path) {
  BoardPage page;
  if (!read_at(file, &page, sizeof page, 0) || page.magic != kBoardMagic) {
    return fail(Code::kBadInput, "expected {} to be a page of vram's board, found something else",
                path);
  }
  if (page.version != kBoardVersion) {
    return fail(Code::kUnsupported,
                "expected {} to be a page of version {}, found version {}: the process there uses "
                "another version of vram",
                path, kBoardVersion, page.version);
  }
  page.command[sizeof page.command - 1] = '\0';
  return BoardReading{page.owner, state_of(page.owner), page.command, read_figures(file)};
}

}  // namespace

Result<BoardReading> read_board(const std::string& folder, uint32_t pid) {
  const std::string path = fmt::format("{}/{}", folder, pid);
  // NONBLOCK: somebody may have put a pipe there, that nobody writes to.
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    return fail(Code::kNotFound, "expected a page of process {} as {}, found none ({})", pid, path,
                std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  struct stat page{};
  struct stat owner{};
  const bool is_theirs = fstat(file, &page) == 0 && stat(folder.c_str(), &owner) == 0 &&
                         S_ISREG(page.st_mode) && page.st_uid == owner.st_uid;
  auto reading = is_theirs
                     ? read_page(file, path)
                     : fail(Code::kBadInput, "expected {} to be a file of the folder's user", path);
  close(file);
  if (reading && reading->owner.pid != pid) {
    return fail(Code::kBadInput, "expected {} to be the page of process {}, found that of {}", path,
                pid, reading->owner.pid);
  }
  return reading;
}

std::vector<uint32_t> list_board(const std::string& folder) {
  std::vector<uint32_t> pids;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    uint32_t pid = 0;
    const auto [last, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure == std::errc{} && last == name.data() + name.size()) pids.push_back(pid);
  }
  std::ranges::sort(pids);
  return pids;
}

}  // namespace vram::record
