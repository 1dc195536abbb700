#include "cli/live.hpp"

#include "base/environment.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cli/folders.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/nvml/nvml_when_awake.hpp"
#include "gpu/rocm/rocm_smi.hpp"
#include "trace/open.hpp"
#include "watch/playback.hpp"
#include "watch/take_snapshot.hpp"

#include <algorithm>
#include <string_view>

namespace vram::cli {
namespace {

constexpr std::string_view kPlayDemo = "sim";
constexpr std::string_view kPlay = "sim:";

std::string named_board() { return trusted_environment("VRAM_BOARD"); }

watch::Boards boards() {
  const std::string named = named_board();
  return named.empty() ? watch::Boards() : watch::Boards::in(named);
}

Result<gpu::drm::Drm> open_drm() {
  return gpu::drm::Drm::open(gpu::drm::machine_roots(), gpu::rocm::open_extras);
}

// The device's name says what is played, wherever it is shown.
Result<watch::Playable> open_demo() {
  const DemoRecording& recording = demo_recordings().front();
  VRAM_TRY_ASSIGN(const auto path, demo_path(recording));
  auto playable = open_playable(path);
  if (playable) playable->name = trf("simulated GPU (demo {})", recording.name);
  return playable;
}

std::vector<watch::Opener> all_openers() {
  return {watch::opener_of(
              "nvml", [] { return gpu::nvml::NvmlWhenAwake::open(gpu::nvml::Nvml::library()); }),
          watch::opener_of("drm", open_drm)};
}

Result<LiveSource> parse_source(std::string_view option, const std::string& text) {
  if (text == kPlay)
    return fail(Code::kBadInput,
                "{0} sim: takes a recording behind the colon; {0} sim plays one that comes with "
                "vram",
                option);
  if (text == kPlayDemo) return LiveSource{.recording = ""};
  if (text.starts_with(kPlay)) return LiveSource{.recording = text.substr(kPlay.size())};
  if (std::ranges::count(all_openers(), text, &watch::Opener::name) > 0)
    return LiveSource{.driver = text};
  return fail(Code::kBadInput,
              "{}: expected nvml (NVIDIA), drm (AMD, Intel), sim or sim:RECORDING, found '{}'",
              option, text);
}

}  // namespace

Option source_option(std::string help, LiveSource& target) {
  std::vector<std::string> names = {std::string(kPlayDemo)};
  for (const watch::Opener& opener : all_openers()) names.push_back(opener.name);
  return {"--gpu", "SOURCE", std::move(help), with_choices(value(target, parse_source), names)};
}

Live::Live(std::vector<watch::Opener> openers, std::shared_ptr<watch::Postings> postings,
           watch::CommandLines commands)
    : sources_(std::move(openers)),
      table_(gpu::drm::machine_roots().proc, commands),
      postings_(std::move(postings)) {}

Live Live::playing(watch::Playable playable, watch::CommandLines commands) {
  auto playback = std::make_shared<watch::Playback>(std::move(playable));
  const auto open = [playback]() -> Result<watch::PlayedGpu> { return watch::PlayedGpu(playback); };
  return Live({watch::opener_of("sim", open)}, playback, commands);
}

Result<Live> Live::of(const LiveSource& source, watch::CommandLines commands) {
  if (source.recording)
    return (source.recording->empty() ? open_demo() : open_playable(*source.recording))
        .map([commands](watch::Playable playable) {
          return playing(std::move(playable), commands);
        });
  std::vector<watch::Opener> openers = all_openers();
  if (!source.driver.empty())
    std::erase_if(openers, [&](const auto& opener) { return opener.name != source.driver; });
  return Live(std::move(openers), std::make_shared<watch::Boards>(boards()), commands);
}

std::vector<std::string> board_folders() { return watch::board_folders(named_board()); }

watch::Reclaimable Live::reclaimable_of(const watch::Snapshot& snapshot) {
  return watch::find_reclaimable(snapshot, board_folders(), table_);
}

watch::Reclaimable Live::read_reclaimable() { return reclaimable_of(take_sample()); }

watch::Snapshot Live::take_sample() {
  watch::Readings readings = sources_.read();
  const watch::Moment moment = watch::current_moment();
  rates_.apply(readings);
  xids_.apply(readings, moment.time_ns);
  return watch::take_snapshot(moment, std::move(readings), table_, *postings_);
}

namespace {

constexpr uint64_t kWithoutClockNs = 60 * kSecondNs;

}  // namespace

watch::Playable playable_of(const explain::MemoryTimeline& timeline) {
  const auto end = static_cast<uint64_t>(timeline.end_ns);
  const uint64_t tick_ns =
      timeline.has_time ? 1 : std::max<uint64_t>(kWithoutClockNs / std::max<uint64_t>(end, 1), 1);
  watch::Playable playable{.points = {},
                           .length_ns = end * tick_ns + kSecondNs,
                           .device = timeline.ordinal,
                           .total_bytes = timeline.memory_bytes};
  playable.points.reserve(timeline.points.size());
  for (const explain::TimelinePoint& point : timeline.points) {
    playable.points.push_back({static_cast<uint64_t>(point.time_ns) * tick_ns,
                               point.allocated_bytes, point.reserved_bytes});
  }
  return playable;
}

Result<watch::Playable> open_playable(const std::string& path) {
  VRAM_TRY_ASSIGN(const auto trace, trace::open_trace(path));
  return explain::timeline_of(trace).map(playable_of);
}

}  // namespace vram::cli
