// Restores the terminal even if the program crashes (SIGSEGV, an abort): the output and modes are
// prepared in advance, so that the signal handler only applies them.
#pragma once

#include <string>

namespace vram::show {

// Stores the current modes of standard input. Call it before they are changed.
void remember_terminal_modes();
// From now on, a crash writes `farewell` and restores the modes; then the signal has its usual
// effect.
void guard_terminal(const std::string& farewell);
void unguard_terminal();

}  // namespace vram::show
