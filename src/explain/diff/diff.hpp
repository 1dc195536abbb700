// Diff: compares the peaks of two sides, A and B, of a change to a program: for each device, what
// grew, what is new, and whether that exceeds a limit. Pure functions of what find_peaks() found.
#pragma once

#include "base/result.hpp"
#include "explain/diff/peaks.hpp"
#include "explain/diff/side.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::explain {

struct SiteChange {
  std::optional<PeakSite> a;  // nothing: new in B
  std::optional<PeakSite> b;  // nothing: gone
  [[nodiscard]] uint64_t a_bytes() const { return a ? a->bytes : 0; }
  [[nodiscard]] uint64_t b_bytes() const { return b ? b->bytes : 0; }
  [[nodiscard]] const PeakSite& latest() const { return b ? *b : *a; }
};

enum class ChangeKind : uint8_t { kNew, kGrown, kShrunk, kGone, kSame };
[[nodiscard]] ChangeKind kind_of(const SiteChange& change);

// Bytes by which B exceeds A; negative if it is smaller.
[[nodiscard]] constexpr int64_t growth(uint64_t a_bytes, uint64_t b_bytes) {
  return static_cast<int64_t>(b_bytes - a_bytes);
}

enum class Regression : uint8_t {
  kNone,
  kPeak,  // it grew by more than the limit
  kOom,   // only B ran out of memory, or in more of its runs than chance explains
};

struct DeviceChange {
  std::optional<SideDevice> a;
  std::optional<SideDevice> b;
  // Nothing: the sides have recorded no places in common, as when only one has stacks.
  std::optional<SiteBasis> basis;
  // Largest difference first; complete: differences add up to that of the peaks.
  std::vector<SiteChange> sites;
  std::optional<uint64_t> limit_bytes;  // with a limit: how much the peak may grow
  Regression regression = Regression::kNone;

  [[nodiscard]] uint64_t a_bytes() const { return a ? a->peak.requested_bytes : 0; }
  [[nodiscard]] uint64_t b_bytes() const { return b ? b->peak.requested_bytes : 0; }
  [[nodiscard]] const DevicePeak& latest() const { return b ? b->peak : a->peak; }
  [[nodiscard]] bool is_regression() const { return regression != Regression::kNone; }
};

// By how much a peak may grow: the larger of both, and of what peaks vary by between runs.
struct Limit {
  std::optional<double> share;  // 0.02: of the peak of A
  std::optional<uint64_t> bytes;
};

// "2%", "64MiB", "0", or both: "2%,64MiB".
[[nodiscard]] Result<Limit> parse_limit(std::string_view text);

struct Diff {
  std::string a_name;
  std::string b_name;
  std::vector<DeviceChange> devices;  // largest growth first
  std::optional<Limit> limit;
  // Of recordings that were accepted although they are incomplete: which, and why.
  std::vector<std::string> incomplete = {};
  bool accepts_missing = false;  // devices that B lacks are within the limit

  [[nodiscard]] bool has_regression() const;
  // B lacks the device, so that the limit cannot be judged for it.
  [[nodiscard]] bool is_unjudged(const DeviceChange& change) const;
};

// Devices are matched by rank and number; the only GPU of a rank matches whatever its number.
[[nodiscard]] Diff compare(const Side& a, const Side& b, const std::optional<Limit>& limit);

// "rank 3 GPU 0", "GPU 1", "rank 2 pinned host memory"
[[nodiscard]] std::string device_text(const DevicePeak& device);

// "GPU 1": those for which the limit cannot be judged.
[[nodiscard]] std::vector<std::string> unjudged_devices(const Diff& diff);

}  // namespace vram::explain
