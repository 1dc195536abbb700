// Rights: drops privileges of a server while it runs. Linux has capabilities for each thread, and a
// new thread inherits its creator's: so the thread that reads other users' processes is started
// first; then its creator drops its capabilities, and all later threads (which listen, write,
// notify) have none. Any thread.
#pragma once

#include "base/result.hpp"

namespace vram {

// Forbids dangerous system calls to all current and future threads of the process: no tracing, no
// memory of other processes, no files by handle, no kernel modules, no mounts; with CAP_SYS_PTRACE
// and CAP_DAC_READ_SEARCH they would make it possible to become root. Only if PR_SET_NO_NEW_PRIVS
// is already set, as service managers and containers do; otherwise has no effect.
[[nodiscard]] Result<> refuse_dangerous_calls();

// Of the calling thread, and of those that it makes from then on: no capability, effective,
// permitted, inheritable or ambient, ever again.
[[nodiscard]] Result<> drop_capabilities();

}  // namespace vram
