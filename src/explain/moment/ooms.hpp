// OOM events: the request, the device's memory, and the holders of the rest. Pure; see state.hpp
// for the cost of each.
#pragma once

#include "explain/moment/sources.hpp"
#include "explain/report.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

// Programs that catch the error and try again may fail thousands of times: the first and the last
// are explained.
inline constexpr size_t kMaxOoms = 16;

// The numbers of their events: all of them.
[[nodiscard]] std::vector<uint64_t> oom_events(std::span<const trace::Event> events);
// At most kMaxOoms. Oom::step is set by the caller.
[[nodiscard]] std::vector<Oom> find_ooms(const Sources& sources);

}  // namespace vram::explain
