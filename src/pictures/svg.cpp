#include "pictures/svg.hpp"

#include "base/xml.hpp"
#include "pictures/ink.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace vram::pictures {
namespace {

// By this the program knows its own files again (is_own_format).
constexpr std::string_view kStart =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- vram report -->\n";
// Fonts of about the same width; each system has one of them.
constexpr std::string_view kFonts =
    "Roboto, Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans CJK SC', 'PingFang SC', "
    "'Microsoft YaHei', sans-serif";
// Coordinates are written in tenths: finer ones can't be seen.
constexpr int64_t kParts = 10;

int64_t parts(double value) { return std::llround(value * kParts); }

// 12.5, 12, -.5
std::string number(int64_t parts) {
  const std::string sign = parts < 0 ? "-" : "";
  const int64_t size = parts < 0 ? -parts : parts;
  if (size % kParts == 0) return fmt::format("{}{}", sign, size / kParts);
  return size < kParts ? fmt::format("{}.{}", sign, size)
                       : fmt::format("{}{}.{}", sign, size / kParts, size % kParts);
}

std::string number(double value) { return number(parts(value)); }

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

// Relative moves, each as short as it can be.
std::string path_data(const std::vector<Point>& points) {
  std::string data;
  int64_t x = 0;
  int64_t y = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const int64_t dx = parts(points[i].x) - x;
    const int64_t dy = parts(points[i].y) - y;
    x += dx;
    y += dy;
    if (i == 0) {
      data += fmt::format("M{} {}", number(x), number(y));
    } else if (dx != 0 && dy != 0) {
      data += fmt::format("l{} {}", number(dx), number(dy));
    } else if (dx != 0) {
      data += "h" + number(dx);
    } else if (dy != 0) {
      data += "v" + number(dy);
    }
  }
  return data;
}

void write_item(const Area& area, std::string& out) {
  out += fmt::format(R"(<path fill="{}")", hex(area.colour));
  if (area.opacity < 1) out += fmt::format(R"( fill-opacity="{:.2f}")", area.opacity);
  out += fmt::format(R"( d="{}z")", path_data(area.outline));
  if (area.hover.empty())
    out += "/>\n";
  else
    out += fmt::format("><title>{}</title></path>\n", xml_text(area.hover));
}

void write_item(const Path& path, std::string& out) {
  out += fmt::format(R"(<path fill="none" stroke="{}" stroke-width="{}")", hex(path.colour),
                     number(path.width));
  if (path.is_dashed) out += fmt::format(R"( stroke-dasharray="{} {}")", kDashOn, kDashOff);
  out += fmt::format(" d=\"{}\"/>\n", path_data(path.points));
}

void write_item(const Label& label, std::string& out) {
  out += fmt::format(R"(<text x="{}" y="{}" font-size="{}" fill="{}")", number(label.at.x),
                     number(label.at.y), number(label.size), hex(label.colour));
  if (label.anchor != Anchor::kStart)
    out += fmt::format(R"( text-anchor="{}")", label.anchor == Anchor::kEnd ? "end" : "middle");
  if (label.is_tight)
    out += fmt::format(R"( textLength="{}" lengthAdjust="spacingAndGlyphs")",
                       number(text_width(label.text, label.size)));
  out += fmt::format(">{}</text>\n", xml_text(label.text));
}

}  // namespace

std::string svg_of(const Scene& scene) {
  std::string out(kStart);
  out += fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
      R"(role="img" font-family="{2}" direction="ltr" unicode-bidi="isolate">)"
      "\n<style>text{{unicode-bidi:isolate;white-space:pre}}</style>\n",
      number(scene.width), number(scene.height), kFonts);
  out += fmt::format("<title>{}</title>\n<desc>{}</desc>\n", xml_text(scene.title),
                     xml_text(scene.description));
  write_item(rectangle({0, 0}, scene.width, scene.height, scene.background), out);
  for (const Item& item : scene.items)
    std::visit([&](const auto& each) { write_item(each, out); }, item);
  return out + "</svg>\n";
}

}  // namespace vram::pictures
