#include "cli/report_picture.hpp"

#include "base/file.hpp"
#include "base/language.hpp"
#include "cli/output.hpp"
#include "cli/recordings.hpp"
#include "explain/explain.hpp"
#include "explain/moment/device_view.hpp"
#include "pages/groups.hpp"
#include "pictures/flame.hpp"
#include "pictures/png.hpp"
#include "pictures/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace vram::cli {
namespace {

// The words of --by, and the dimensions that they name.
const Words<std::string_view>& dimension_words() {
  static const Words<std::string_view> kWords = {
      {"site", "user_frame"}, {"category", "category"}, {"scope", "scope"}, {"size", "size_range"},
      {"stream", "stream"},   {"pool", "pool"},         {"step", "step"}};
  return kWords;
}

struct PictureSize {
  double width = 0;
  double height = 0;
};

constexpr int kMaxUnits = 4000;

// "960x420"
Result<PictureSize> parse_picture_size(std::string_view text) {
  const auto wrong = [&] {
    return fail(Code::kBadInput,
                "expected WIDTHxHEIGHT, such as 960x420, from {}x{} to {}x{}; found '{}'",
                pictures::kMinWidth, pictures::kMinHeight, kMaxUnits, kMaxUnits, text);
  };
  const size_t middle = text.find('x');
  if (middle == std::string_view::npos) return wrong();
  const auto number = [](std::string_view digits) -> int {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : -1;
  };
  const int width = number(text.substr(0, middle));
  const int height = number(text.substr(middle + 1));
  if (width < pictures::kMinWidth || height < pictures::kMinHeight || width > kMaxUnits ||
      height > kMaxUnits)
    return wrong();
  return PictureSize{static_cast<double>(width), static_cast<double>(height)};
}

// Pixels a unit.
Result<double> parse_scale(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0.25 && value <= 8))
    return fail(Code::kBadInput, "expected 0.25 to 8, found '{}'", text);
  return value;
}

Value size_value(pictures::Frame& frame) {
  return {Count::kOne, [&frame](std::string_view option, const std::string& text) -> Result<> {
            auto size = parse_picture_size(text);
            if (!size) return fail(size.error().code, "{}: {}", option, size.error().message);
            frame.width = size->width;
            frame.height = size->height;
            return {};
          }};
}

Result<> write_file(const std::string& path, std::string_view bytes, bool is_forced) {
  auto file = AtomicFile::create(path, replace_for(is_forced));
  if (!file) return tl::unexpected(with_force(std::move(file.error())));
  VRAM_TRY(file->write(bytes));
  return file->commit();
}

Result<pictures::Scene> draw_flame_of(const explain::DeviceView& view,
                                      const explain::Report& report, size_t device,
                                      const PictureRequest& request,
                                      const PictureOptions& options) {
  if (!request.at) return pictures::draw_flame(view, view.report.at_peak, options.frame);
  auto state = explain::find_state(view.trace, report, device, *request.at);
  if (!state) return fail(state.error().code, "--at {}", state.error().message);
  return pictures::draw_flame(view, *state, options.frame);
}

// "site, size, stream": the words that this recording has groups for.
std::string known_words(const std::vector<std::string_view>& dimensions) {
  std::vector<std::string> known;
  for (const auto& [word, dimension] : dimension_words())
    if (std::ranges::find(dimensions, dimension) != dimensions.end()) known.push_back(word);
  return fmt::format("{}", fmt::join(known, ", "));
}

Result<pictures::Scene> draw_timeline_of(const explain::DeviceView& view,
                                         const PictureOptions& options) {
  const auto dimensions = pages::dimensions_of(view);
  const std::string_view by = options.by.empty() ? dimensions.front() : options.by;
  if (std::ranges::find(dimensions, by) == dimensions.end())
    return fail(Code::kBadInput, "--by: the recording does not contain this; it has {}",
                known_words(dimensions));
  VRAM_TRY_ASSIGN(const auto window, pictures::find_window(view, options.window));
  return pictures::draw_timeline(view, pages::find_groups(view, by), window, options.frame);
}

Result<pictures::Scene> draw_picture(const PictureRequest& request, const PictureOptions& options,
                                     const Console& console) {
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(request.path, request.reading, console));
  Progress progress(console, tr("explaining"));
  progress.announce(trace.events.size());
  explain::ExplainOptions explaining;
  explaining.device = request.device;
  explaining.progress = [&progress](std::string_view stage, double share) {
    progress.update_stage(stage, share);
  };
  VRAM_TRY_ASSIGN(const auto report, explain::explain(trace, explaining));
  const explain::DeviceView view(trace, report, report.main_device);
  if (options.kind == PictureKind::kFlame)
    return draw_flame_of(view, report, report.main_device, request, options);
  return draw_timeline_of(view, options);
}

}  // namespace

bool PictureOptions::has_settings() const {
  const PictureOptions none;
  const pictures::Frame& usual = none.frame;
  return kind != none.kind || !by.empty() || window.axis || window.from || window.to ||
         scale != none.scale || frame.width != usual.width || frame.height != usual.height ||
         frame.is_dark || !frame.title.empty();
}

std::vector<Option> picture_options(PictureOptions& target) {
  const Words<std::optional<pictures::AxisKind>> axes = {{"time", pictures::AxisKind::kTime},
                                                         {"event", pictures::AxisKind::kEvent}};
  return {
      {"--svg", "FILE", tr("draw memory over time as a picture for papers and pull requests"),
       file(&target.svg)},
      {"--png", "FILE", tr("the same picture, for where SVG is not shown"), file(&target.png)},
      {"--picture", "KIND",
       tr("timeline (default), or flame: where the memory of the peak, or of --at, was allocated"),
       choice(target.kind, Words<PictureKind>{{"timeline", PictureKind::kTimeline},
                                              {"flame", PictureKind::kFlame}})},
      {"--by", "GROUP",
       tr("stack the picture's memory by site, category, scope, size, stream, pool or step"),
       choice(target.by, dimension_words())},
      {"--axis", "AXIS", tr("draw the picture over time (default) or event, by number"),
       choice(target.window.axis, axes)},
      {"--from", "TIME", tr("begin the picture there: 1.5s, step:3, event:1234, peak"),
       value(target.window.from, explain::parse_moment)},
      {"--to", "TIME", tr("end the picture there"), value(target.window.to, explain::parse_moment)},
      {"--size", "WIDTHxHEIGHT", tr("size of the picture (960x420)"), size_value(target.frame)},
      {"--scale", "FACTOR", tr("pixels of a PNG for each unit of --size (2)"),
       value(target.scale, parse_scale)},
      {"--theme", "THEME", tr("light (default) or dark"),
       choice(target.frame.is_dark, Words<bool>{{"light", false}, {"dark", true}})},
      {"--title", "TEXT", tr("title of the picture (default: the recording and the device)"),
       &target.frame.title}};
}

Result<> write_pictures(const PictureRequest& request, const PictureOptions& options,
                        const Console& console) {
  for (const std::string* path : {&options.svg, &options.png})
    VRAM_TRY(check_output({*path, request.is_forced, true}));
  auto scene = draw_picture(request, options, console);
  if (!scene) {
    Error error = std::move(scene.error());
    if (!error.message.starts_with(request.path) && !error.message.starts_with("--"))
      error.message = fmt::format("{}: {}", request.path, error.message);
    return tl::unexpected(std::move(error));
  }
  if (!options.svg.empty())
    VRAM_TRY(write_file(options.svg, pictures::svg_of(*scene), request.is_forced));
  if (options.png.empty()) return {};
  auto png = pictures::png_of(*scene, options.scale);
  if (!png) return fail(png.error().code, "--png: {}", png.error().message);
  return write_file(options.png, *png, request.is_forced);
}

}  // namespace vram::cli
