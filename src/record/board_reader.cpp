#include "record/board_reader.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <limits>
#include <string_view>

namespace vram::record {
namespace {

// Postings take less than a microsecond: who finds one in the making this often finds one whose
// owner is stopped or dead.
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
  const auto file = PageFile::open(folder, pid);
  if (!file) return tl::unexpected(file.error());
  return BoardReading{file->owner(), file->owner_state(), file->command(), read_figures(*file)};
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

}  // namespace vram::record
