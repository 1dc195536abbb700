// The schema of the history's file, and how a connection is set up to write it.
#pragma once

#include "base/own_formats.hpp"
#include "watch/history/database.hpp"

#include <string>

namespace vram::watch {

inline constexpr int64_t kApplicationId = kHistoryApplication;
inline constexpr int64_t kSchemaVersion = 1;

// Creates the tables of an empty file. Errors: kBadInput: damaged, or no database; kUnsupported: of
// another program, or of a newer vram.
[[nodiscard]] Result<> prepare_schema(Database& database, const std::string& path);

}  // namespace vram::watch
