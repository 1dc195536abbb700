// Settings that a program reads while others wait for it: rules, tokens, certificates. A FIFO that
// nobody writes to or a mount whose server is gone must not hold it up, so only plain files are
// read, and none for longer than a few seconds. Any thread.
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

// kNotFound: there is none. kBadInput: it is no plain file. kTooLarge: it has more than
// `max_bytes`. kIo: it can't be read, or not within `timeout`; the read then goes on by itself, on
// a thread that is left behind.
[[nodiscard]] Result<SettingsFile> read_settings(
    const std::string& path, uint64_t max_bytes,
    std::chrono::milliseconds timeout = kSettingsTimeout);

}  // namespace vram
