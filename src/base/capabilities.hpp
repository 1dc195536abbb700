// Capabilities: the rights of a thread. Linux counts them for each thread, and a new thread has its
// maker's. Any thread.
#pragma once

#include "base/result.hpp"

namespace vram {

// Of the calling thread, and of those that it makes from then on: no capability, effective,
// permitted, inheritable or ambient, ever again.
[[nodiscard]] Result<> drop_capabilities();

}  // namespace vram
