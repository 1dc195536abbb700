#include "cli/signal_process.hpp"

#include "base/descriptor.hpp"
#include "base/process_stat.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::cli {
namespace {

using show::top::ProcessId;

bool was_started_as(const ProcessId& process) {
  const std::string path = fmt::format("/proc/{}/stat", process.pid);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t length = file.number() < 0 ? -1 : read(file.number(), text.data(), text.size());
  if (length <= 0) return false;
  const auto stat = parse_process_stat({text.data(), static_cast<size_t>(length)});
  return stat && process.start_ticks == stat->start_ticks;
}

tl::unexpected<Error> refused(const ProcessId& process, int error) {
  if (error == ESRCH) return fail(Code::kNotFound, "process {} has ended already", process.pid);
  if (error == EPERM)
    return fail(Code::kIo, "process {} is another user's: only its user and root may signal it",
                process.pid);
  if (error == ENOSYS)
    return fail(Code::kIo, "this kernel can't hold on to a process (Linux 5.3 can): use kill {}",
                process.pid);
  return fail(Code::kIo, "process {}: {}", process.pid, std::strerror(error));
}

}  // namespace

Result<> signal_process(const ProcessId& process, int signal) {
  const Descriptor held(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (held.number() < 0) return refused(process, errno);
  if (!was_started_as(process)) {
    return fail(Code::kNotFound,
                "process {} has ended; its number is another's by now: nobody was signalled",
                process.pid);
  }
  if (syscall(SYS_pidfd_send_signal, held.number(), signal, nullptr, 0) != 0)
    return refused(process, errno);
  return {};
}

}  // namespace vram::cli
