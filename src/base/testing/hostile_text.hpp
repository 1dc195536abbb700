// A text as an attacker would choose it, for whatever shows texts of other processes.
#pragma once

#include <string>

namespace vram::testing {

// Text that would clear the screen, rename the window, run backwards, or not be text at all.
inline std::string hostile_text() {
  return "=cmd|' /C calc'!A0,\"x\"\x1b[2J\x1b]0;owned\x07\r\n\u009b31m\u202egnp.exe 显存显存 \xff" +
         std::string(300, 'A');
}

}  // namespace vram::testing
