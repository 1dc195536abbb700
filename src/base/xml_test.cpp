#include "base/xml.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace vram {
namespace {

TEST(XmlText, NoByteEndsTheTextOrIsIllegal) {
  EXPECT_EQ(xml_text("<b title=\"1\">&</b>"), "&lt;b title=&quot;1&quot;&gt;&amp;&lt;/b&gt;");
  EXPECT_EQ(xml_text("a\x01\x1b[2J\x7f\nb"), "a\\x01\\x1b[2J\\x7f\\nb");
  EXPECT_EQ(xml_text("\xEF\xBF\xBE\xEF\xBF\xBF\xED\xA0\x80|\xFF"), "\uFFFD\uFFFD\uFFFD|\uFFFD");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = xml_text(std::string(1, static_cast<char>(byte)));
    for (const char c : text) EXPECT_GE(static_cast<uint8_t>(c), 0x20) << byte;
  }
}

}  // namespace
}  // namespace vram
