// A terminal that is given back even when the program dies of a fault (SIGSEGV, an abort): what to
// write and which modes to set is made beforehand, so that the signal's handler need only do it.
#pragma once

#include <string>

namespace vram::show {

// Remembers the modes of standard input as they are now. Before anything changes them.
void remember_terminal_modes();
// From now on `farewell` is written in a fault, and the modes come back; then the signal does what
// it always does.
void guard_terminal(const std::string& farewell);
void unguard_terminal();

}  // namespace vram::show
