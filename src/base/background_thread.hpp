// Threads of ours in somebody else's process.
#pragma once

#include "base/result.hpp"

#include <functional>
#include <thread>

namespace vram {

// A thread that takes none of the program's signals: all are blocked in it but those that say that
// the thread itself has crashed. What a write beyond a limit raises (SIGXFSZ, SIGPIPE) stays
// pending, and the write fails. kIo: the system grants no thread (a limit of processes, memory);
// nothing is thrown.
[[nodiscard]] Result<std::thread> start_background_thread(std::function<void()> work);

}  // namespace vram
