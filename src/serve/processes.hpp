// Filters and sorts processes for /api/v1/processes. Pure functions.
#pragma once

#include "base/result.hpp"
#include "serve/http.hpp"
#include "watch/snapshot.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

// Finds a device by its uuid, PCI id or number; null if there is none.
[[nodiscard]] const watch::Device* find_device(const watch::Snapshot& snapshot,
                                               std::string_view key);

enum class SortBy : uint8_t { kMemory, kPid, kUser, kBusy };

struct ProcessQuery {
  std::optional<uint32_t> device;  // its index
  std::optional<std::string> user;
  SortBy sort = SortBy::kMemory;
};

// kBadInput: a device or an order that there is not.
[[nodiscard]] Result<ProcessQuery> parse_process_query(const Query& query,
                                                       const watch::Snapshot& snapshot);

// Sorted by value, descending, unknown ones last; then by pid, so that rows keep their places.
[[nodiscard]] std::vector<const watch::Process*> select(const watch::Snapshot& snapshot,
                                                        const ProcessQuery& query);

}  // namespace vram::serve
