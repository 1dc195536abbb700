#include "watch/file_request.hpp"

#include "base/result.hpp"
#include "base/time.hpp"
#include "record/board_reader.hpp"
#include "record/page_requester.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::watch {
namespace {

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
Result<Descriptor> answer_of(const std::string& folder, uint32_t pid, const FileRequest& request,
                             const PageRequester& requester) {
  if (!requester.bytes()) return fail(Code::kIo, "process {} {}", pid, request.failed);
  struct stat process{};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0)
    return fail(Code::kIo, "process {} answered and ended before its answer was taken", pid);
  return take_answer(request.path(folder, pid, requester.number()), process.st_uid);
}

}  // namespace

Result<Descriptor> take_answer(const std::string& path, uid_t owner) {
  // Without waiting for the writer of a pipe.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found{};
  const bool is_taken = file.number() >= 0 && fstat(file.number(), &found) == 0;
  (void)unlink(path.c_str());
  if (!is_taken || !S_ISREG(found.st_mode) || found.st_uid != owner || found.st_nlink != 1)
    return fail(Code::kIo, "expected an answer of user {} as {}, found none or another file", owner,
                path);
  return file;
}

Result<Descriptor> request_file(const std::vector<std::string>& folders, uint32_t pid,
                                const FileRequest& request, uint64_t timeout_ns) {
  VRAM_TRY_ASSIGN(const auto folder, folder_of(folders, pid));
  VRAM_TRY_ASSIGN(auto requester, PageRequester::start(folder, pid, request.order, request.slot));
  (void)requester.wait(timeout_ns);
  switch (requester.withdraw()) {
    case RequestState::kAnswered:
      return answer_of(folder, pid, request, requester);
    case RequestState::kAsked:
      return fail(Code::kIo, "process {} has not answered within {} s: {}", pid,
                  timeout_ns / kSecondNs, request.silent);
    case RequestState::kQueued:
      return fail(Code::kIo, "process {} was answering another request for {} s: try again", pid,
                  timeout_ns / kSecondNs);
    case RequestState::kOwnerDied:
      return fail(Code::kIo, "process {} ended before it answered", pid);
    default:
      return fail(Code::kIo, "process {} removed its status page before it answered", pid);
  }
}

}  // namespace vram::watch
