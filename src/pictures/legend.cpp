#include "pictures/legend.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "pictures/ink.hpp"
#include "show/names.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace vram::pictures {
namespace {

constexpr double kLegendSize = 11.5;
constexpr double kRow = 18;
constexpr double kHead = 20;
constexpr double kLegendColumn = 280;  // the narrowest of several
constexpr double kBetween = 24;

size_t column_count(double width) {
  return static_cast<size_t>(std::max(1.0, (width + kBetween) / (kLegendColumn + kBetween)));
}

size_t rows_per_column(size_t rows, double width) {
  const size_t columns = column_count(width);
  return (rows + columns - 1) / columns;
}

// The smallest areas become one row, until there are at most `limit`.
void merge_smallest(std::vector<LegendRow>& rows, size_t limit, const Theme& theme) {
  if (rows.size() <= limit) return;
  size_t merged = 0;
  uint64_t bytes = 0;
  while (rows.size() + 1 > limit) {
    const auto size_of = [](const LegendRow& row) { return row.is_line ? UINT64_MAX : row.bytes; };
    const auto smallest = std::ranges::min_element(rows, {}, size_of);
    if (smallest == rows.end() || smallest->is_line) break;
    bytes += smallest->bytes;
    ++merged;
    rows.erase(smallest);
  }
  rows.push_back({trf("{} more", merged), bytes, theme.surface, false});
}

void draw_row(const LegendRow& row, Point at, double width, const Theme& theme, Scene& scene) {
  constexpr double kSwatch = 11;
  if (row.is_line)
    scene.items.emplace_back(rectangle({at.x, at.y - 5}, kSwatch, 2, row.colour));
  else
    scene.items.emplace_back(rectangle({at.x, at.y - 9}, kSwatch, kSwatch, row.colour));
  const std::string bytes = format_bytes(row.bytes);
  const double bytes_width = text_width(bytes, kLegendSize);
  const double room = width - kSwatch - 8 - bytes_width - 12;
  scene.items.emplace_back(Label{{at.x + kSwatch + 8, at.y},
                                 fit_front(row.name, kLegendSize, room),
                                 kLegendSize,
                                 theme.ink,
                                 Anchor::kStart,
                                 true});
  scene.items.emplace_back(
      Label{{at.x + width, at.y}, bytes, kLegendSize, theme.ink, Anchor::kEnd});
}

// Of a dimension of the report.
std::optional<explain::Dimension> dimension_named(std::string_view id) {
  using explain::Dimension;
  for (const Dimension each : {Dimension::kUserFrame, Dimension::kScope, Dimension::kSize,
                               Dimension::kStream, Dimension::kPool, Dimension::kCategory})
    if (show::identifier(each) == id) return each;
  return std::nullopt;
}

}  // namespace

double legend_height(size_t rows, double width) {
  return kHead + static_cast<double>(rows_per_column(rows, width)) * kRow;
}

void draw_legend(const LegendPlace& place, const std::string& head, std::vector<LegendRow> rows,
                 const Theme& theme, Scene& scene) {
  const size_t columns = column_count(place.width);
  const double room = place.bottom - place.corner.y - kHead;
  merge_smallest(rows, columns * static_cast<size_t>(std::max(2.0, room / kRow)), theme);
  const double width =
      (place.width - kBetween * static_cast<double>(columns - 1)) / static_cast<double>(columns);
  scene.items.emplace_back(Label{{place.corner.x, place.corner.y + 12},
                                 fit_end(head, kLegendSize, place.width),
                                 kLegendSize,
                                 theme.muted});
  const size_t in_column = rows_per_column(rows.size(), place.width);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t column = i / in_column;
    const Point at = {place.corner.x + static_cast<double>(column) * (width + kBetween),
                      place.corner.y + kHead + 12 + static_cast<double>(i % in_column) * kRow};
    draw_row(rows[i], at, width, theme, scene);
  }
}

std::string group_text(std::string_view dimension, std::string_view name) {
  const auto by = dimension_named(dimension);
  // Names of steps and ranges of sizes are in the user's language already, but for the first step.
  return show::holder_text(by.value_or(explain::Dimension::kUserFrame), name);
}

std::string group_title(std::string_view dimension) {
  if (dimension == "step") return tr("by step of allocation");
  const auto by = dimension_named(dimension);
  return std::string(show::phrase(by.value_or(explain::Dimension::kSize)));
}

}  // namespace vram::pictures
