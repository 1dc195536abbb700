// The schema of the history's file, and how a connection is set up to write it.
#pragma once

#include "base/own_formats.hpp"
#include "watch/history/database.hpp"

#include <string>

namespace vram::watch {

inline constexpr int64_t kApplicationId = kHistoryApplication;
inline constexpr int64_t kSchemaVersion = 1;

// Makes the tables where the file is empty. Errors: kBadInput, the file is none or broken;
// kUnsupported, it is somebody else's or a newer vram's.
[[nodiscard]] Result<> prepare_schema(Database& database, const std::string& path);

}  // namespace vram::watch
