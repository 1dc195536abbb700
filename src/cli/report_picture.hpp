// Static pictures of a recording (vram report --svg, --png): their options, and the files.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "explain/moment/state.hpp"
#include "pictures/columns.hpp"
#include "pictures/timeline.hpp"
#include "trace/open.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::cli {

enum class PictureKind : uint8_t { kTimeline, kFlame };

struct PictureOptions {
  std::string svg;  // paths; empty: none
  std::string png;
  PictureKind kind = PictureKind::kTimeline;
  std::string_view by;  // pages::Groups::id; empty: as the report lists holders
  pictures::WindowRequest window;
  pictures::Frame frame;
  double scale = 2;  // pixels of a PNG a unit

  [[nodiscard]] bool is_wanted() const { return !svg.empty() || !png.empty(); }
  // Says how a picture looks.
  [[nodiscard]] bool has_settings() const;
};

// --svg, --png and those that say how the picture looks, into `target`.
[[nodiscard]] std::vector<Option> picture_options(PictureOptions& target);

struct PictureRequest {
  std::string path;
  std::optional<uint32_t> device = {};
  std::optional<explain::MomentRequest> at = {};  // of a flame graph; else the peak
  trace::OpenOptions reading = {};
  bool is_forced = false;
};

// Reads and explains the recording, and writes the files. Errors: those of reading, explaining and
// writing; kBadInput and kNotFound, which name the option, if the recording lacks what it asks for.
[[nodiscard]] Result<> write_pictures(const PictureRequest& request, const PictureOptions& options,
                                      const Console& console);

}  // namespace vram::cli
