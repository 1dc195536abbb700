// system_text: what the C library says of an error number, in the user's language. By our own
// catalogue, since strerror() needs an installed locale.
#pragma once

#include "base/language.hpp"

#include <cstring>
#include <string_view>

namespace vram {

// The texts that people meet, for the catalogues; others are English.
inline constexpr const char* kSystemTexts[] = {
    tr_later("No such file or directory"), tr_later("Permission denied"),
    tr_later("Operation not permitted"),   tr_later("Is a directory"),
    tr_later("Not a directory"),           tr_later("File exists"),
    tr_later("No space left on device"),   tr_later("Read-only file system"),
    tr_later("Too many open files"),       tr_later("File name too long"),
    tr_later("Input/output error"),        tr_later("Cannot allocate memory"),
    tr_later("Disk quota exceeded"),       tr_later("Broken pipe"),
    tr_later("No such process"),           tr_later("Connection refused"),
    tr_later("Address already in use"),    tr_later("Device or resource busy")};

[[nodiscard]] inline std::string_view system_text(int error) {
  return tr(std::string_view(std::strerror(error)));
}

}  // namespace vram
