#include "show/terminal/fault_guard.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <termios.h>
#include <unistd.h>

namespace vram::show {
namespace {

constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// For a signal's handler: plain memory that is there before it runs.
std::array<char, 512> farewell_text;
size_t farewell_length = 0;
termios modes_before;
bool has_modes = false;

extern "C" void give_back(int signal) {
  (void)!write(STDOUT_FILENO, farewell_text.data(), farewell_length);
  if (has_modes) (void)tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
  std::signal(signal, SIG_DFL);
  (void)raise(signal);
}

}  // namespace

void remember_terminal_modes() { has_modes = tcgetattr(STDIN_FILENO, &modes_before) == 0; }

void guard_terminal(const std::string& farewell) {
  farewell_length = std::min(farewell.size(), farewell_text.size());
  std::copy_n(farewell.begin(), farewell_length, farewell_text.begin());
  for (const int fault : kFaults) std::signal(fault, give_back);
}

void unguard_terminal() {
  for (const int fault : kFaults) std::signal(fault, SIG_DFL);
}

}  // namespace vram::show
