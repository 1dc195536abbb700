// Collapsed stacks: a line for each stack, for flamegraph.pl, inferno and speedscope.
#include "base/text.hpp"
#include "exports/export_file.hpp"
#include "exports/exports.hpp"
#include "exports/sites/sites.hpp"
#include "trace/export/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <string>

namespace vram::exports {
namespace {

// ';' separates frames, and a line is a stack.
void append_frame_name(std::string& out, const explain::Frame& frame) {
  std::string name = frame.function.empty() ? "?" : frame.function;
  if (!frame.file.empty()) {
    name += fmt::format(" ({}", frame.file);
    if (frame.line != 0) name += fmt::format(":{}", frame.line);
    name += ')';
  }
  for (char& c : name) {
    if (c == ';') c = ':';
    if (c == '\n' || c == '\r') c = ' ';
  }
  out += valid_utf8(name);
}

}  // namespace

Result<> write_folded(const reports::SharedRecording& recording, const std::string& path,
                      Replace replace) {
  VRAM_TRY_ASSIGN(auto file, ExportFile::create(path, replace));
  const std::vector<DeviceSites> devices = find_sites(*recording);
  for (const DeviceSites& device : devices) {
    for (const Site& site : device.sites) {
      if (site.peak.bytes == 0) continue;
      std::string& out = file.text();
      if (devices.size() > 1) out.append(device.name) += ';';
      const std::vector<explain::Frame> frames = frames_of(recording->trace.tables, site);
      for (const explain::Frame& frame : frames | std::views::reverse) {
        append_frame_name(out, frame);
        out += &frame == &frames.front() ? ' ' : ';';
      }
      trace::append_number(out, site.peak.bytes);
      out += '\n';
      file.flush_if_large();
    }
  }
  // The last line is a stack without bytes: the format has no comments.
  fmt::format_to(std::back_inserter(file.text()), "{}{} 0\n", kTextEnd, VRAM_VERSION);
  return file.commit();
}

}  // namespace vram::exports
