// Threads that vram starts in a program of someone else.
#pragma once

#include "base/result.hpp"

#include <functional>
#include <thread>

namespace vram {

// Starts a thread that blocks all signals except those that report its own crash. If a write
// exceeds a limit, the signal (SIGXFSZ, SIGPIPE) stays pending and the write fails. kIo: the system
// refuses to start a thread (a limit of processes or memory). Throws nothing.
[[nodiscard]] Result<std::thread> start_background_thread(std::function<void()> work);

}  // namespace vram
