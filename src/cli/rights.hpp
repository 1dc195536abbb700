// Rights: what a privileged server gives up once it runs: capabilities (base/capabilities.hpp), and
// calls. The thread that looks at other users' processes is made first and keeps its capabilities;
// all that are made afterwards (they listen, write, notify) have none.
#pragma once

#include "base/result.hpp"

namespace vram::cli {

// Of the whole process, all threads there are and will be: no tracing, no memory of other
// processes, no file by its handle, no module, no mount; with the rights to trace and to read
// everything (CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH) these would be the way to become root. Only
// where no_new_privs is set already, as service managers and containers do: nothing is done
// elsewhere.
[[nodiscard]] Result<> refuse_dangerous_calls();

}  // namespace vram::cli
