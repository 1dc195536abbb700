// A signal to a process and to no later one with its number: the process is held by a descriptor,
// and then it is looked whether it began when the one that was meant did.
#pragma once

#include "base/result.hpp"
#include "show/top/rows.hpp"

namespace vram::cli {

// kNotFound: it has ended. kIo: it may not be done; the message says what to do.
[[nodiscard]] Result<> signal_process(const show::top::ProcessId& process, int signal);

}  // namespace vram::cli
