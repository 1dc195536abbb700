// thread_number(): a small number that no other living thread has, as long as fewer than
// kThreadNumbers have asked; from there on threads share. One that ends leaves its number to one
// that begins: threads that live side by side spread over whatever is numbered. Any thread; no
// lock; allocates nothing.
#pragma once

#include <cstdint>

namespace vram {

inline constexpr uint32_t kThreadNumbers = 64;

// Below kThreadNumbers.
[[nodiscard]] uint32_t thread_number();

}  // namespace vram
