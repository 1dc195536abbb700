#include "pages/page.hpp"

#include "base/text.hpp"
#include "explain/moment/device_view.hpp"
#include "pages/device_blocks.hpp"
#include "pages/groups.hpp"
#include "pages/overview.hpp"
#include "pages/replays.hpp"
#include "pages/texts.hpp"
#include "show/names.hpp"
#include "show/report/report_json.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <utility>

namespace vram::pages {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"report", "diff", "ranks"};

Json json_dimensions(const std::vector<Groups>& groups) {
  Json dimensions = Json::array();
  for (const Groups& each : groups)
    dimensions.push_back({{"id", each.id}, {"groups", json_texts(each.names)}});
  return dimensions;
}

Json json_device(const explain::DeviceView& view, const std::vector<Groups>& groups,
                 int64_t time_unit_ns, uint64_t part_positions) {
  return {{"name", show::device_name(view.report)},
          {"clock", show::identifier(view.clock.kind())},
          {"events", view.device.event_count},
          {"lifetimes", view.history.lifetimes.size()},
          {"bin_positions", positions_per_bin(view.device.event_count)},
          {"part_positions", part_positions},
          {"time_unit_ns", time_unit_ns},
          {"memory_bytes", json_or_null(view.report.memory_bytes)},
          {"dimensions", json_dimensions(groups)}};
}

void append(std::vector<Block>& to, std::vector<Block> blocks) {
  to.insert(to.end(), std::move_iterator(blocks.begin()), std::move_iterator(blocks.end()));
}

}  // namespace

PageMaker::PageMaker(PageKind kind, std::string_view title, uint64_t part_positions)
    : part_positions_(part_positions) {
  page_.head = {{"schema", "vram.page/1"},
                {"kind", kKinds[static_cast<size_t>(kind)]},
                {"title", valid_utf8(title)},
                {"recordings", Json::array()},
                {"documents", Json::array()}};
}

void PageMaker::add_document(Block document) {
  page_.head["documents"].push_back(document.name);
  page_.rest.push_back(std::move(document));
}

void PageMaker::add(const trace::Trace& trace, const explain::Report& report) {
  const std::string recording = fmt::format("r{}.", page_.head["recordings"].size());
  PageTexts texts(trace.tables);
  Json devices = Json::array();
  for (size_t i = 0; i < trace.devices.size(); ++i) {
    const explain::DeviceView view(trace, report, i);
    const std::vector<Groups> groups = find_groups(view);
    const std::string prefix = fmt::format("{}device{}", recording, i);
    Times times = time_blocks(prefix, view, part_positions_);
    devices.push_back(json_device(view, groups, times.unit_ns, part_positions_));
    page_.first.push_back(overview_block(prefix + ".overview", view, groups));
    page_.rest.push_back(scope_block(prefix + ".scopes", view, texts));
    page_.rest.push_back(sample_block(prefix + ".samples", view));
    page_.rest.push_back(segment_block(prefix + ".segments", view, texts));
    page_.rest.push_back(
        json_block(prefix + ".replays", json_replays(trace, trace.devices[i], report.devices[i])));
    append(page_.rest, lifetime_blocks(prefix, view, groups, texts, part_positions_));
    append(page_.rest, std::move(times.blocks));
  }
  page_.first.push_back({recording + "report", show::report_json(report)});
  append(page_.rest, texts.take_blocks(recording));
  const std::string title = std::filesystem::path(report.path).filename().string();
  page_.head["recordings"].push_back({{"title", valid_utf8(title)},
                                      {"main_device", report.main_device},
                                      {"devices", std::move(devices)}});
}

}  // namespace vram::pages
