// Reads settings files (rules, tokens, certificates) without blocking: a FIFO without a writer or a
// mount without its server must not delay the program. So only regular files are read, each with a
// timeout. May be called from any thread.
#pragma once

#include "base/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace vram {

struct SettingsFile {
  std::string text;
  uint32_t mode = 0;   // its permissions, 0777 at most
  uint32_t owner = 0;  // the user's number
};

inline constexpr std::chrono::milliseconds kSettingsTimeout{2'000};

// kNotFound: no such file. kBadInput: not a regular file. kTooLarge: more than `max_bytes`. kIo: it
// cannot be read, or not within `timeout`; a detached thread then finishes the read.
[[nodiscard]] Result<SettingsFile> read_settings(
    const std::string& path, uint64_t max_bytes,
    std::chrono::milliseconds timeout = kSettingsTimeout);

}  // namespace vram
