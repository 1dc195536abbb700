// Peaks: what a recording's devices held at their peaks, by place in the program, in a form that
// can be compared with other recordings: without addresses and identifiers of one run. Plain
// values; find_peaks() is a pure function.
#pragma once

#include "base/result.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::explain {

// By what the places of two recordings are matched: the best that both have.
enum class SiteBasis : uint8_t {
  kStack,     // the user's functions on the stack
  kName,      // the program's names for its memory, or scopes
  kPosition,  // the order of the allocations
};
inline constexpr size_t kSiteBases = 3;
// As baselines and JSON call them.
inline constexpr std::array<std::string_view, kSiteBases> kSiteBasisNames = {"stack", "name",
                                                                             "position"};

struct PeakSite {
  std::string name;               // one line: "train.py:42 loss_fn", "layers.7.mlp · activation"
  std::vector<Frame> calls = {};  // kStack: the user's, innermost first; empty without a stack
  uint64_t bytes = 0;             // requested
  uint64_t count = 0;             // blocks
};

inline constexpr std::string_view kOtherSites = "smaller sites";

struct DevicePeak {
  std::optional<uint64_t> rank;
  bool is_host = false;
  uint32_t ordinal = 0;
  uint64_t requested_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t steps = 0;
  uint64_t ooms = 0;
  // By SiteBasis; empty: not recorded. The bytes of each add up to requested_bytes. kPosition: in
  // order of allocation; the others by bytes, largest first.
  std::array<std::vector<PeakSite>, kSiteBases> sites;
  // Of a baseline: smaller sites are summed in one, kOtherSites. 0: all are listed.
  uint64_t listed_from_bytes = 0;

  [[nodiscard]] const std::vector<PeakSite>& by(SiteBasis basis) const {
    return sites[static_cast<size_t>(basis)];
  }
};

struct RunPeaks {
  std::string path;
  std::optional<uint64_t> rank;
  // Unix times of its events; nothing without a clock.
  std::optional<int64_t> begin_ns;
  int64_t end_ns = 0;
  // Why peaks of this recording may be too low: "the ring overflowed: …". "" if it is complete.
  std::string incomplete;
  std::vector<DevicePeak> devices;
};

// Errors: as check_contents().
[[nodiscard]] Result<RunPeaks> find_peaks(const trace::Trace& trace);

}  // namespace vram::explain
