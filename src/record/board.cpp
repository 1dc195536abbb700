#include "record/board.hpp"

#include "base/clock.hpp"
#include "base/result.hpp"
#include "record/board_page.hpp"
#include "record/board_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::record {
namespace {

using Word = std::atomic_ref<uint64_t>;

tl::unexpected<Error> refused(const std::string& path, const char* what) {
  return fail(Code::kIo,
              "expected to {} {}, found that the system refuses ({}): free some shared memory, or "
              "name another folder by VRAM_BOARD",
              what, path, std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
}

// The folder is ours alone, and no link to somewhere else: /dev/shm is open to everybody.
Result<> check_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return refused(folder, "make");
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts{};
  if (opened.number() < 0 || fstat(opened.number(), &facts) != 0) return refused(folder, "open");
  if (facts.st_uid != geteuid()) {
    return fail(Code::kIo,
                "expected {} to be a folder of user {}, found one of user {}, which only that user "
                "and root can remove: name another folder with VRAM_BOARD",
                folder, geteuid(), facts.st_uid);
  }
  if ((facts.st_mode & 0077U) != 0) {
    return fail(Code::kIo,
                "expected {} to be a folder with mode 0700, found mode {:04o}: chmod 700 {}, or "
                "name another folder with VRAM_BOARD",
                folder, facts.st_mode & 07777U, folder);
  }
  return {};
}

void read_command(BoardPage& page) {
  const Descriptor file(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  const ssize_t size = read(file.number(), page.command, sizeof page.command - 1);
  for (ssize_t i = 0; i + 1 < size; ++i)
    if (page.command[i] == '\0') page.command[i] = ' ';
}

// A whole page under its name at once: readers never meet half of one.
Result<BoardPage*> make_page(const std::string& folder, const std::string& path) {
  const BoardOwner owner = this_process();
  const std::string unnamed = fmt::format("{}/.{}.{}", folder, owner.pid, owner.pid_namespace);
  unlink(unnamed.c_str());  // of a process that died here, and had our pid
  const Descriptor file(
      ::open(unnamed.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.number() < 0) return refused(unnamed, "make");
  // Without memory behind it, writing to a full /dev/shm would kill the process.
  if (const int error = posix_fallocate(file.number(), 0, kBoardPageBytes); error != 0) {
    errno = error;
    unlink(unnamed.c_str());
    return refused(unnamed, "get memory for");
  }
  void* const memory =
      mmap(nullptr, kBoardPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) return refused(unnamed, "map");
  // A fork must not post on its parent's page: it has none until it opens its own.
  (void)madvise(memory, kBoardPageBytes, MADV_DONTFORK);
  auto* const page = new (memory) BoardPage{};
  page->owner = owner;
  read_command(*page);
  if (rename(unnamed.c_str(), path.c_str()) != 0) return refused(path, "name");
  return page;
}

// Word by word: each store releases those before it, so none can be seen before the odd sequence.
void store(void* to, const void* from, size_t bytes) {
  auto* const words = static_cast<uint64_t*>(to);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(from) + i * sizeof word, sizeof word);
    Word(words[i]).store(word, std::memory_order_release);
  }
}

}  // namespace

Board::Board(std::string path, BoardPage* page)
    : path_(std::move(path)), owner_pid_(page->owner.pid), page_(page) {}

Result<Board> Board::open(const std::string& folder) {
  VRAM_TRY(check_folder(folder));
  (void)sweep_board(folder);
  const BoardOwner owner = this_process();
  std::string path = fmt::format("{}/{}", folder, owner.pid);
  const std::string second = fmt::format("{}.{}", path, owner.pid_namespace);
  unlink(second.c_str());  // of a process that died here, and had our pid
  const auto found = PageFile::open(folder, owner.pid);
  if (found && found->owner_state() == OwnerState::kOtherNamespace) path = second;
  VRAM_TRY_ASSIGN(const auto page, make_page(folder, path));
  return Board(std::move(path), page);
}

Board::~Board() {
  if (page_ == nullptr || owner_pid_ != static_cast<uint32_t>(getpid())) return;
  withdraw();
  munmap(page_, kBoardPageBytes);
}

void Board::withdraw() {
  if (owner_pid_ != static_cast<uint32_t>(getpid())) return;
  remove_listed();
  const auto named = PageFile::open_path(path_, owner_pid_);
  if (named && named->owner() == page_->owner) unlink(path_.c_str());
}

bool Board::post(const BoardPosting& posting) noexcept {
  BoardFigures figures;
  figures.posted_ns = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
  figures.step = posting.step;
  figures.step_ns = posting.step_ns;
  posting.scope.copy(figures.scope, kScopeBytes - 1);
  figures.device_count = std::min(posting.devices.size(), kBoardDevices);
  std::copy_n(posting.devices.begin(), figures.device_count, figures.devices);

  const Word sequence(page_->sequence);
  uint64_t before = sequence.load(std::memory_order_relaxed);
  if (before % 2 != 0 ||
      !sequence.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) {
    return false;
  }
  store(&page_->figures, &figures,
        offsetof(BoardFigures, devices) + figures.device_count * sizeof(BoardDevice));
  sequence.store(before + 2, std::memory_order_release);
  return true;
}

// A number that is above wanted says that the words are another request's by now.
std::optional<PageRequest> Board::request(BoardSlot which) const {
  BoardRequest& slot = this->slot(which);
  const uint64_t wanted = Word(slot.wanted).load(std::memory_order_acquire);
  if (wanted == Word(slot.answered).load(std::memory_order_relaxed)) return std::nullopt;
  const PageRequest request{wanted,
                            {Word(slot.device_or_steps).load(std::memory_order_acquire),
                             Word(slot.bytes_or_ns).load(std::memory_order_acquire)}};
  const bool is_another = Word(slot.writing).load(std::memory_order_relaxed) > wanted;
  return is_another ? std::nullopt : std::optional(request);
}

BoardRequest& Board::slot(BoardSlot slot) const {
  switch (slot) {
    case BoardSlot::kRecord:
      return page_->recording;
    case BoardSlot::kSegments:
      return page_->segments;
    default:
      return page_->request;
  }
}

void Board::set_records(bool records) {
  Word(page_->records).store(records ? 1 : 0, std::memory_order_relaxed);
}

void Board::set_lists_segments() {
  const Word lists(page_->lists_segments);
  if (lists.load(std::memory_order_relaxed) == 0) lists.store(1, std::memory_order_relaxed);
}

bool Board::answer(const PageRequest& request, uint64_t bytes, BoardSlot which) {
  Word(slot(which).answer_bytes).store(bytes, std::memory_order_relaxed);
  Word(slot(which).answered).store(request.number, std::memory_order_seq_cst);
  return Word(slot(which).writing).load(std::memory_order_seq_cst) <= request.number;
}

void Board::remove_listed() {
  if (!listed_.empty()) (void)unlink(listed_.c_str());
  listed_.clear();
}

Result<> Board::answer_segments(const PageRequest& request, std::span<const ListedSegment> segments,
                                std::span<const ListedBlock> blocks) {
  remove_listed();
  const std::string path = answered_segments(folder(), owner_pid_, request.number);
  (void)unlink(path.c_str());  // of a process that died here, and had our pid
  const auto bytes = write_segments(path, segments, blocks);
  if (bytes) listed_ = path;
  if (!answer(request, bytes.value_or(kBoardUnknown), BoardSlot::kSegments)) remove_listed();
  if (!bytes) return tl::unexpected(bytes.error());
  return {};
}

}  // namespace vram::record
