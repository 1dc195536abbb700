// Which processes /api/v1/processes is asked for, and in which order. Pure functions.
#pragma once

#include "base/result.hpp"
#include "serve/http.hpp"
#include "watch/snapshot.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

// A device by its uuid, its PCI id or its number; null where there is none.
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

// Largest figures first, unknown ones last; equal ones by pid, so that rows stay where they are.
[[nodiscard]] std::vector<const watch::Process*> select(const watch::Snapshot& snapshot,
                                                        const ProcessQuery& query);

}  // namespace vram::serve
