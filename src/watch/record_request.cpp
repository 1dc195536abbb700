#include "watch/record_request.hpp"

#include "base/result.hpp"
#include "base/time.hpp"
#include "record/board_page.hpp"
#include "record/board_reader.hpp"
#include "record/page_requester.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::watch {
namespace {

using record::BoardSlot;
using record::PageRequester;
using record::RequestState;

Result<std::string> folder_of(const std::vector<std::string>& folders, uint32_t pid) {
  for (const std::string& folder : folders) {
    const auto page = record::read_board(folder, pid);
    if (page && page->state == record::OwnerState::kAlive) return folder;
  }
  return fail(Code::kNotFound, "process {} has no status page", pid);
}

// What the process has left, once it has answered.
Result<Descriptor> answer_of(const std::string& folder, uint32_t pid,
                             const PageRequester& requester) {
  if (!requester.bytes())
    return fail(Code::kIo, "process {} could not record: its disk or shared memory may be full",
                pid);
  struct stat process{};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0)
    return fail(Code::kIo, "process {} answered and ended before its recording was taken", pid);
  return take_answer(record::answered_recording(folder, pid, requester.number()), process.st_uid);
}

}  // namespace

Result<Descriptor> take_answer(const std::string& path, uid_t owner) {
  // Without waiting for the writer of a pipe.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found{};
  const bool is_taken = file.number() >= 0 && fstat(file.number(), &found) == 0;
  (void)unlink(path.c_str());
  if (!is_taken || !S_ISREG(found.st_mode) || found.st_uid != owner || found.st_nlink != 1)
    return fail(Code::kIo, "expected a recording of user {} as {}, found none or another file",
                owner, path);
  return file;
}

Result<Descriptor> request_recording(const std::vector<std::string>& folders, uint32_t pid,
                                     const RecordOrder& order, uint64_t timeout_ns) {
  VRAM_TRY_ASSIGN(const auto folder, folder_of(folders, pid));
  VRAM_TRY_ASSIGN(auto requester,
                  PageRequester::start(folder, pid,
                                       {order.steps.value_or(record::kBoardUnknown),
                                        order.duration_ns.value_or(record::kBoardUnknown)},
                                       BoardSlot::kRecord));
  (void)requester.wait(timeout_ns);
  switch (requester.withdraw()) {
    case RequestState::kAnswered:
      return answer_of(folder, pid, requester);
    case RequestState::kAsked:
      return fail(Code::kIo,
                  "process {} has not answered within {} s: it begins steps (vram.step()) too "
                  "rarely, or none; set a longer --timeout",
                  pid, timeout_ns / kSecondNs);
    case RequestState::kQueued:
      return fail(Code::kIo, "process {} was answering another request for {} s: try again", pid,
                  timeout_ns / kSecondNs);
    case RequestState::kOwnerDied:
      return fail(Code::kIo, "process {} ended before it answered", pid);
    default:
      return fail(Code::kIo, "process {} removed its status page before it answered", pid);
  }
}

namespace {

// A complete recording stays as it is. The process that left it may belong to another user, and may
// append as fast as it is copied, or claim a size for which it has stored nothing.
Result<struct stat> complete_file(const Descriptor& recording) {
  struct stat found{};
  if (fstat(recording.number(), &found) != 0 || !S_ISREG(found.st_mode))
    return fail(Code::kIo, "expected a recording of the process, found no regular file");
  const off_t hole = lseek(recording.number(), 0, SEEK_HOLE);
  if (hole >= 0 && hole < found.st_size) {
    return fail(Code::kIo,
                "expected a complete recording of the process, found a file of {} bytes of which "
                "nothing is stored at {}",
                found.st_size, hole);
  }
  return found;
}

bool is_unchanged(const Descriptor& recording, const struct stat& before) {
  struct stat now{};
  const auto is_same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  return fstat(recording.number(), &now) == 0 && now.st_size == before.st_size &&
         is_same(now.st_mtim, before.st_mtim) && is_same(now.st_ctim, before.st_ctim);
}

}  // namespace

Result<uint64_t> save_recording(const Descriptor& recording, const std::string& path,
                                Replace replace) {
  VRAM_TRY_ASSIGN(const struct stat before, complete_file(recording));
  VRAM_TRY_ASSIGN(auto file, AtomicFile::create(path, replace));
  const auto size_bytes = static_cast<uint64_t>(before.st_size);
  std::array<char, size_t{1} << 16> buffer;
  for (uint64_t total = 0; total < size_bytes;) {
    const size_t wanted = std::min<uint64_t>(buffer.size(), size_bytes - total);
    const ssize_t bytes =
        pread(recording.number(), buffer.data(), wanted, static_cast<off_t>(total));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return fail(Code::kIo, "cannot read the recording of the process");
    if (bytes == 0) break;
    VRAM_TRY(file.write({buffer.data(), static_cast<size_t>(bytes)}));
    total += static_cast<uint64_t>(bytes);
  }
  if (!is_unchanged(recording, before)) {
    return fail(Code::kIo,
                "expected a complete recording of the process, found a file that changed while it "
                "was copied");
  }
  VRAM_TRY(file.commit());
  return size_bytes;
}

}  // namespace vram::watch
