#include "pictures/png.hpp"

#include "pictures/ink.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace vram::pictures {
namespace {

// zlib makes smaller files than the compressor that comes with the writer, which frees the result.
unsigned char* compressed(unsigned char* data, int size, int* compressed_size, int level) {
  uLongf length = compressBound(static_cast<uLong>(size));
  auto* const out = static_cast<unsigned char*>(std::malloc(length));
  VRAM_CHECK(out != nullptr);
  VRAM_CHECK(compress2(out, &length, data, static_cast<uLong>(size), level) == Z_OK);
  *compressed_size = static_cast<int>(length);
  return out;
}

}  // namespace
}  // namespace vram::pictures

#define STBIW_ZLIB_COMPRESS vram::pictures::compressed
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

namespace vram::pictures {
namespace {

constexpr int kChannels = 3;

class Canvas {
 public:
  Canvas(int width, int height, Colour background)
      : width_(width), height_(height), pixels_(size_t(width) * size_t(height) * kChannels) {
    for (size_t i = 0; i < pixels_.size(); i += kChannels) {
      pixels_[i] = background.red;
      pixels_[i + 1] = background.green;
      pixels_[i + 2] = background.blue;
    }
  }

  void blend(const Ink& ink, Colour colour, double opacity) {
    for (int row = 0; row < ink.height; ++row) {
      for (int column = 0; column < ink.width; ++column) {
        const uint8_t covered = ink.coverage[size_t(row) * size_t(ink.width) + size_t(column)];
        if (covered != 0)
          blend_pixel({ink.left + column, ink.top + row}, colour, opacity * covered / 255);
      }
    }
  }
  [[nodiscard]] const std::vector<uint8_t>& pixels() const { return pixels_; }

 private:
  struct Place {
    int x = 0;
    int y = 0;
  };
  void blend_pixel(Place place, Colour colour, double share) {
    if (place.x < 0 || place.y < 0 || place.x >= width_ || place.y >= height_) return;
    uint8_t* const pixel =
        &pixels_[(size_t(place.y) * size_t(width_) + size_t(place.x)) * kChannels];
    const std::array parts = {colour.red, colour.green, colour.blue};
    for (size_t i = 0; i < parts.size(); ++i)
      pixel[i] = static_cast<uint8_t>(std::lround(pixel[i] + (parts.at(i) - pixel[i]) * share));
  }

  int width_;
  int height_;
  std::vector<uint8_t> pixels_;
};

std::vector<Point> scaled(std::vector<Point> points, double scale) {
  for (Point& point : points) point = {point.x * scale, point.y * scale};
  return points;
}

void paint(const Area& area, double scale, Canvas& canvas) {
  canvas.blend(ink_of(scaled(area.outline, scale)), area.colour, area.opacity);
}

// A line of `width` from one point to another; `reach` beyond both.
void paint_line(Point from, Point to, const Path& path, double reach, double scale,
                Canvas& canvas) {
  const double half = path.width / 2;
  const bool is_flat = from.y == to.y;
  const double x = is_flat ? reach : half;
  const double y = is_flat ? half : reach;
  const Point corner = {std::min(from.x, to.x) - x, std::min(from.y, to.y) - y};
  const Point end = {std::max(from.x, to.x) + x, std::max(from.y, to.y) + y};
  paint(rectangle(corner, end.x - corner.x, end.y - corner.y, path.colour), scale, canvas);
}

void paint(const Path& path, double scale, Canvas& canvas) {
  for (size_t i = 1; i < path.points.size(); ++i) {
    const Point from = path.points[i - 1];
    const Point to = path.points[i];
    if (!path.is_dashed) {
      paint_line(from, to, path, path.width / 2, scale, canvas);
      continue;
    }
    const double length = std::abs(to.x - from.x) + std::abs(to.y - from.y);
    const auto at = [&](double share) {
      return Point{from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share};
    };
    for (double done = 0; done < length; done += kDashOn + kDashOff)
      paint_line(at(done / length), at(std::min(1.0, (done + kDashOn) / length)), path, 0, scale,
                 canvas);
  }
}

void paint(const Label& label, double scale, Canvas& canvas) {
  const double width = text_width(label.text, label.size);
  Point at = label.at;
  if (label.anchor != Anchor::kStart) at.x -= label.anchor == Anchor::kEnd ? width : width / 2;
  for (const Ink& ink : ink_of_text(label.text, label.size * scale, {at.x * scale, at.y * scale}))
    canvas.blend(ink, label.colour, 1);
}

void append(void* to, void* data, int size) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(data), static_cast<size_t>(size));
}

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xFFU);
  return bytes;
}

// A text chunk behind the header, by which the program knows its own files again (is_own_format).
std::string with_writer(std::string png) {
  constexpr size_t kHeaderEnd = 8 + 4 + 4 + 13 + 4;  // the signature, and IHDR with its checksum
  const std::string text = std::string("tEXtSoftware") + '\0' + "vram report " VRAM_VERSION;
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  return png.insert(kHeaderEnd, big_endian(static_cast<uint32_t>(text.size() - 4)) + text +
                                    big_endian(static_cast<uint32_t>(checksum)));
}

}  // namespace

Result<std::string> png_of(const Scene& scene, double scale) {
  const double width = std::round(scene.width * scale);
  const double height = std::round(scene.height * scale);
  if (!(width >= 1 && height >= 1 && width <= kMaxPixels && height <= kMaxPixels))
    return fail(
        Code::kBadInput,
        "a PNG of {} x {} pixels: expected 1 to {} a side; choose another --size or --scale", width,
        height, kMaxPixels);
  Canvas canvas(static_cast<int>(width), static_cast<int>(height), scene.background);
  for (const Item& item : scene.items)
    std::visit([&](const auto& each) { paint(each, scale, canvas); }, item);
  std::string png;
  const int row_bytes = static_cast<int>(width) * kChannels;
  VRAM_CHECK(stbi_write_png_to_func(append, &png, static_cast<int>(width), static_cast<int>(height),
                                    kChannels, canvas.pixels().data(), row_bytes) != 0);
  return with_writer(std::move(png));
}

}  // namespace vram::pictures
