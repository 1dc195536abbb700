// thread_number(): a small number that no other living thread has, as long as fewer than
// kThreadNumbers have asked; from there on threads share. One that ends leaves its number to one
// that begins: threads that live side by side spread over whatever is numbered. Any thread; no
// lock; allocates nothing.
#pragma once

#include <cstdint>

namespace vram {

inline constexpr uint32_t kThreadNumbers = 64;

namespace thread_numbers {

// 1 more than the number; 0: not asked yet. In the library's static block of thread-local storage,
// which is found without a call.
extern __attribute__((tls_model("initial-exec"))) constinit thread_local uint32_t own;
[[nodiscard]] uint32_t take();

}  // namespace thread_numbers

// Below kThreadNumbers.
[[nodiscard]] inline uint32_t thread_number() {
  return thread_numbers::own == 0 ? thread_numbers::take() : thread_numbers::own - 1;
}

}  // namespace vram
