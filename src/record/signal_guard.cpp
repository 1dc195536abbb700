#include "record/signal_guard.hpp"

#include <csignal>

namespace vram::record {

__attribute__((tls_model("initial-exec"))) constinit thread_local SignalGuard::Own SignalGuard::own;

bool SignalGuard::put_off(int signal) {
  if (own.depth == 0) return false;
  own.put_off = own.put_off | uint64_t{1} << (signal - 1);
  return true;
}

// A signal that comes meanwhile is handled in its place: no guard is alive.
void SignalGuard::raise_again() {
  for (uint64_t left = own.put_off; left != 0; left = own.put_off) {
    const int signal = __builtin_ctzll(left) + 1;
    own.put_off = left & (left - 1);
    (void)raise(signal);
  }
}

}  // namespace vram::record
