// speedscope's own format: frames by number, and profiles of weighted stacks.
#include "base/export_marks.hpp"
#include "exports/export_file.hpp"
#include "exports/exports.hpp"
#include "exports/sites/sites.hpp"
#include "trace/export/export.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <ranges>
#include <string>
#include <tuple>
#include <vector>

namespace vram::exports {
namespace {

using trace::append_json_string;
using trace::append_number;

// Numbers frames in the order of their first use, as members of "frames".
class FrameList {
 public:
  [[nodiscard]] size_t index(const explain::Frame& frame) {
    const auto [entry, is_new] =
        indexes_.try_emplace({frame.function, frame.file, frame.line}, indexes_.size());
    if (is_new) append(frame);
    return entry->second;
  }
  [[nodiscard]] const std::string& json() const { return json_; }

 private:
  void append(const explain::Frame& frame) {
    json_ += json_.empty() ? R"({"name":)" : R"(,{"name":)";
    append_json_string(json_, frame.function.empty() ? "?" : frame.function);
    if (!frame.file.empty()) {
      json_ += R"(,"file":)";
      append_json_string(json_, frame.file);
    }
    if (frame.line != 0) {
      json_ += R"(,"line":)";
      append_number(json_, frame.line);
    }
    json_ += '}';
  }
  std::map<std::tuple<std::string, std::string, uint32_t>, size_t> indexes_;
  std::string json_;
};

struct Moment {
  std::string name;
  Amount Site::* amount;
};

// The format draws no negative weights: what shrank is left out.
void append_profile(std::string& out, const reports::Recording& recording,
                    const DeviceSites& device, const Moment& moment, FrameList& frames) {
  std::string samples;
  std::string weights;
  int64_t total = 0;
  for (const Site& site : device.sites) {
    const int64_t bytes = (site.*moment.amount).bytes;
    if (bytes <= 0) continue;
    total = limited_sum(total, bytes);
    samples += samples.empty() ? "[" : ",[";
    const std::vector<explain::Frame> stack = frames_of(recording.trace.tables, site);
    for (const explain::Frame& frame : stack | std::views::reverse) {
      append_number(samples, frames.index(frame));
      samples += &frame == &stack.front() ? ']' : ',';
    }
    if (!weights.empty()) weights += ',';
    append_number(weights, bytes);
  }
  out += R"({"type":"sampled","name":)";
  append_json_string(out, fmt::format("{}: {}", device.name, moment.name));
  out +=
      fmt::format(R"(,"unit":"bytes","startValue":0,"endValue":{},"samples":[{}],"weights":[{}]}})",
                  total, samples, weights);
}

}  // namespace

Result<> write_speedscope(const reports::SharedRecording& recording, const std::string& path,
                          Replace replace) {
  VRAM_TRY_ASSIGN(auto file, ExportFile::create(path, replace));
  FrameList frames;
  std::string profiles;
  for (const DeviceSites& device : find_sites(*recording)) {
    const std::array moments = {Moment{"peak", &Site::peak}, Moment{"end", &Site::end},
                                Moment{"growth " + device.growth.text, &Site::growth}};
    for (const Moment& moment : moments) {
      if (!profiles.empty()) profiles += ',';
      append_profile(profiles, *recording, device, moment, frames);
    }
  }
  std::string& out = file.text();
  out +=
      fmt::format(R"({}{}","$schema":"https://www.speedscope.app/file-format-schema.json","name":)",
                  kSpeedscopeStart, VRAM_VERSION);
  append_json_string(out, recording->trace.origin.path);
  out += fmt::format(R"(,"activeProfileIndex":0,"shared":{{"frames":[{}]}},"profiles":[{}]}})",
                     frames.json(), profiles);
  out += '\n';
  return file.commit();
}

}  // namespace vram::exports
