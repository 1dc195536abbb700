#include "watch/record_request.hpp"

#include "base/language.hpp"
#include "base/result.hpp"
#include "record/board_page.hpp"
#include "watch/file_request.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::watch {

Result<Descriptor> request_recording(const std::vector<std::string>& folders, uint32_t pid,
                                     const RecordOrder& order, uint64_t timeout_ns) {
  return request_file(
      folders, pid,
      {.slot = record::BoardSlot::kRecord,
       .order = {order.steps.value_or(record::kBoardUnknown),
                 order.duration_ns.value_or(record::kBoardUnknown)},
       .path = record::answered_recording,
       .failed = tr("could not record: its disk or shared memory may be full"),
       .silent = tr("it begins steps (vram.step()) too rarely, or none; set a longer --timeout")},
      timeout_ns);
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
