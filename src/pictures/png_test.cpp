#include "pictures/png.hpp"

#include "base/file.hpp"
#include "base/testing/paths.hpp"
#include "pictures/ink.hpp"
#include "pictures/svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#include <stb/stb_image.h>

namespace vram::pictures {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Colour kWhite = {255, 255, 255};
constexpr Colour kBlue = {0x44, 0x77, 0xaa};
constexpr Colour kRed = {0xc0, 0x1c, 0x28};

struct Decoded {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;

  explicit Decoded(const std::string& png) {
    int channels = 0;
    auto* const data =
        stbi_load_from_memory(reinterpret_cast<const uint8_t*>(png.data()),
                              static_cast<int>(png.size()), &width, &height, &channels, 3);
    if (data == nullptr) return;
    pixels.assign(data, data + width * height * 3);
    stbi_image_free(data);
  }
  [[nodiscard]] Colour at(int x, int y) const {
    const size_t i =
        (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3;
    return {pixels.at(i), pixels.at(i + 1), pixels.at(i + 2)};
  }
  // How many pixels of this part are of another colour.
  [[nodiscard]] int differing(int left, int top, int right, int bottom, Colour from) const {
    int count = 0;
    for (int y = top; y < bottom; ++y)
      for (int x = left; x < right; ++x) count += at(x, y) == from ? 0 : 1;
    return count;
  }
};

Scene scene_of(std::vector<Item> items) {
  return {100, 50, kWhite, "a title", "a description", std::move(items)};
}

TEST(Png, HasTheSizeAndColoursOfTheScene) {
  Area half = rectangle({40, 10}, 20, 20, kRed);
  half.opacity = 0.5;
  const Scene scene = scene_of({rectangle({10, 10}, 20, 20, kBlue), half,
                                Path{{{70, 10.5}, {90, 10.5}, {90, 40}}, kRed, 1},
                                Path{{{0, 45.5}, {100, 45.5}}, kRed, 1, true}});
  for (const int scale : {1, 2, 3}) {
    const Decoded image(png_of(scene, scale).value());
    ASSERT_EQ(image.width, 100 * scale);
    ASSERT_EQ(image.height, 50 * scale);
    const auto at = [&](double x, double y) {
      return image.at(static_cast<int>(x * scale), static_cast<int>(y * scale));
    };
    EXPECT_EQ(at(5, 5), kWhite);
    EXPECT_EQ(at(20, 20), kBlue);
    EXPECT_EQ(at(50, 20), (Colour{0xe0, 0x8e, 0x94}));  // between red and white
    EXPECT_EQ(at(80, 10.4), kRed);
    EXPECT_EQ(at(80, 20), kWhite);
    EXPECT_EQ(at(2, 45.4), kRed);
    EXPECT_EQ(at(7, 45.4), kWhite);  // a gap
  }
}

TEST(Png, HasTextWhereItsAnchorSays) {
  const Scene scene = scene_of({Label{{50, 20}, "Peak", 12, kBlue, Anchor::kEnd},
                                Label{{50, 40}, "Peak", 12, kBlue, Anchor::kStart}});
  const Decoded image(png_of(scene, 1).value());
  EXPECT_GT(image.differing(20, 8, 50, 24, kWhite), 60);
  EXPECT_EQ(image.differing(51, 0, 100, 26, kWhite), 0);
  EXPECT_GT(image.differing(50, 28, 80, 44, kWhite), 60);
  EXPECT_EQ(image.differing(0, 26, 49, 50, kWhite), 0);
  const double width = text_width("Peak", 12);
  EXPECT_GT(width, 20);
  EXPECT_LT(width, 30);
}

TEST(Png, IsAFileThatVramReplaces) {
  const std::string png = png_of(scene_of({}), 1).value();
  EXPECT_TRUE(is_own_format(std::string_view(png).substr(0, kFormatBytes), ""));
  std::string of_another = png;
  of_another.replace(of_another.find("vram report"), 4, "gimp");
  EXPECT_FALSE(is_own_format(std::string_view(of_another).substr(0, kFormatBytes), ""));
}

TEST(Png, HasALimitForItsSize) {
  const auto png = png_of(scene_of({}), 50);
  ASSERT_FALSE(png);
  EXPECT_THAT(png.error().message, HasSubstr("5000 x 2500"));
}

// Nothing outside of the picture is written to, and no number ends the program.
TEST(Png, KeepsWithinItsEdges) {
  const Scene scene =
      scene_of({rectangle({-1e9, -1e9}, 2e9, 1e9 + 5, kBlue),
                Label{{-500, 1e5}, "far away", 12, kRed}, rectangle({10, 10}, 0, 0, kRed), Area{}});
  const Decoded image(png_of(scene, 1).value());
  EXPECT_EQ(image.at(50, 2), kBlue);
  EXPECT_EQ(image.at(50, 30), kWhite);
}

TEST(Svg, IsTextThatNothingInAnameEnds) {
  const std::string name =
      "</text><script>alert(1)</script>\"'&\x01 \xE2\x80\xAE"
      "evil\xEF\xBF\xBF\xFF";
  Scene scene = scene_of({Label{{5, 10}, name, 12, kBlue}});
  scene.title = name;
  Area area = rectangle({0, 0}, 1, 1, kBlue);
  area.hover = name;
  scene.items.emplace_back(area);
  const std::string svg = svg_of(scene);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, HasSubstr("&lt;/text&gt;&lt;script&gt;alert(1)"));
  EXPECT_THAT(svg, HasSubstr("\\x01 \\u202eevil\xEF\xBF\xBD\xEF\xBF\xBD"));
  EXPECT_THAT(svg, Not(HasSubstr("\xE2\x80\xAE")));
  EXPECT_THAT(svg, HasSubstr("unicode-bidi:isolate"));
  EXPECT_TRUE(is_own_format(std::string_view(svg).substr(0, kFormatBytes), ""));
}

TEST(Svg, WritesNumbersInTenths) {
  Scene scene = scene_of({Path{{{0.04, 1.25}, {10, 1.25}, {10, 0.75}}, kRed, 1.5, true}});
  EXPECT_THAT(svg_of(scene),
              HasSubstr(R"(stroke-width="1.5" stroke-dasharray="5 4" d="M0 1.3h10v-.5")"));
}

TEST(Ink, ShortensNamesAtTheFront) {
  const std::string name = "transformer.layers.31.attention.py:1042 scaled_dot_product";
  const std::string shown = fit_front(name, 12, 120);
  EXPECT_TRUE(shown.starts_with("…"));
  EXPECT_TRUE(name.ends_with(shown.substr(std::string("…").size())));
  EXPECT_LE(text_width(shown, 12), 120);
  EXPECT_EQ(fit_front("short", 12, 120), "short");
  EXPECT_EQ(fit_front(name, 12, 5), "");
  EXPECT_LE(text_width(fit_end(name, 12, 120), 12), 120);
}

std::string text_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(source_path(path)).rdbuf();
  return text.str();
}

// Each translation of a text in pictures can be drawn. If not: tools/font.py.
TEST(Ink, HasAGlyphForEachTranslationInPictures) {
  std::ifstream file(source_path("po/zh_CN.po"));
  // The catalogue names one of the sources of a text only.
  const std::string own = text_of("src/pictures/timeline.cpp") + text_of("src/show/names.cpp");
  std::string line;
  bool is_of_pictures = false;
  size_t seen = 0;
  while (std::getline(file, line)) {
    if (line.empty()) is_of_pictures = false;
    constexpr std::string_view kText = "msgid ";
    if (line.starts_with(kText) && own.find(line.substr(kText.size())) != std::string::npos)
      is_of_pictures = true;
    for (const char* const source : {"src/pictures/", "src/pages/groups.cpp", "src/explain/names/",
                                     "src/explain/moment/breakdown"})
      if (line.starts_with("#: ") && line.find(source) != std::string::npos) is_of_pictures = true;
    if (!is_of_pictures || !line.starts_with("msgstr ")) continue;
    ++seen;
    EXPECT_TRUE(has_glyphs(line)) << line;
  }
  EXPECT_GE(seen, 10U);
}

}  // namespace
}  // namespace vram::pictures
