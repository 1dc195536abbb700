// With which sanitizer the tests are compiled: g++ says so by macros, clang by features.
#pragma once

namespace vram::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kHasAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kHasAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kHasThreadSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kHasThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif

// They keep what is freed, so what a process holds says nothing of the program.
inline constexpr bool kCountsMemory = !kHasAddressSanitizer && !kHasThreadSanitizer;

}  // namespace vram::testing
