// Sends a signal to a process and never to a later one with the same pid: a descriptor holds the
// process while its start time is compared.
#pragma once

#include "base/result.hpp"
#include "show/top/rows.hpp"

namespace vram::cli {

// kNotFound: it has ended. kIo: not permitted; the message says what to do.
[[nodiscard]] Result<> signal_process(const show::top::ProcessId& process, int signal);

}  // namespace vram::cli
