// thread_number(): a small number, unique among living threads as long as there are fewer than
// kThreadNumbers; further threads share numbers. A new thread reuses the number of one that ended,
// so that concurrent threads spread over any array indexed by it. May be called from any thread;
// takes no lock, allocates nothing.
#pragma once

#include <cstdint>

namespace vram {

inline constexpr uint32_t kThreadNumbers = 64;

namespace thread_numbers {

// The number plus 1; 0: not assigned yet. In the library's static block of thread-local storage,
// which is accessed without a call.
extern __attribute__((tls_model("initial-exec"))) constinit thread_local uint32_t own;
[[nodiscard]] uint32_t take();

}  // namespace thread_numbers

// Below kThreadNumbers.
[[nodiscard]] inline uint32_t thread_number() {
  return thread_numbers::own == 0 ? thread_numbers::take() : thread_numbers::own - 1;
}

}  // namespace vram
