// A comparison of two sides (explain/diff) as text for people, JSON for programs, and in the
// formats of CI systems. Pure functions of the comparison.
//
// A file that a site names by a relative path is in the user's repository, and is linked to.
#pragma once

#include "explain/diff/diff.hpp"
#include "show/draw/page.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show {

[[nodiscard]] std::string draw_diff(const explain::Diff& diff, const TextOptions& options = {});

inline constexpr size_t kDefaultJsonSites = 50;
// vram.diff/1, documented field by field in docs/json.md. `top`: changed sites of a device, 0 =
// all.
[[nodiscard]] std::string diff_json(const explain::Diff& diff, size_t top);

// GitHub's workflow commands: an annotation for each regression, and for each place that grew, at
// its line.
[[nodiscard]] std::string diff_annotations(const explain::Diff& diff);
// A text for the log of a job, which GitHub searches for commands: "::" at the beginning of a line,
// after spaces, and "##[" anywhere. Names in recordings and of files may contain them.
[[nodiscard]] std::string without_github_commands(std::string_view text);
// Markdown, for the summary of a job or a comment.
[[nodiscard]] std::string diff_markdown(const explain::Diff& diff);
// JUnit XML: a test case for each device.
[[nodiscard]] std::string diff_junit(const explain::Diff& diff);
// SARIF 2.1.0. `version`: of the program.
[[nodiscard]] std::string diff_sarif(const explain::Diff& diff, std::string_view version);

// What the formats have in common.

// "new", "grown", "shrunk", "gone", "same"
[[nodiscard]] std::string_view identifier(explain::ChangeKind kind);
// "none", "peak", "out_of_memory"
[[nodiscard]] std::string_view identifier(explain::Regression regression);
// "", "regression", "out of memory"
[[nodiscard]] std::string_view phrase(explain::Regression regression);
// "GPU 0: the peak grew from 1 GiB to 2 GiB (+100.0 %), more than the limit of 64 MiB"
[[nodiscard]] std::string sentence(const explain::DeviceChange& change);
// "+12.3 %", "new" without an A, "gone" without a B.
[[nodiscard]] std::string relative_growth(uint64_t a_bytes, uint64_t b_bytes);
// "2 % or 64 MiB", whichever is larger
[[nodiscard]] std::string limit_text(const explain::Limit& limit);

// A place that grew or is new, on the device where it grew most.
struct Hotspot {
  const explain::SiteChange* site = nullptr;
  const explain::DeviceChange* device = nullptr;
  size_t devices = 1;  // on which it grew
};
// Of devices with a regression; without one, of all. Largest growth first; at most kMaxHotspots,
// and none that is less than 1 % of the device's growth.
inline constexpr size_t kMaxHotspots = 10;
[[nodiscard]] std::vector<Hotspot> hotspots(const explain::Diff& diff);
// "+512 MiB at the peak of GPU 0 (1 GiB, now 1.5 GiB): model.py:42 forward"
[[nodiscard]] std::string sentence(const Hotspot& hotspot);
// The call of a site that is in the user's repository; null if none is.
[[nodiscard]] const explain::Frame* place_in_repository(const explain::PeakSite& site);

}  // namespace vram::show
