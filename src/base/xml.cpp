#include "base/xml.hpp"

#include "base/text.hpp"

namespace vram {

std::string xml_text(std::string_view bytes) {
  std::string text;
  for (const char c : printable(bytes)) {
    switch (c) {
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      case '&':
        text += "&amp;";
        break;
      case '"':
        text += "&quot;";
        break;
      default:
        text += c;
    }
    if (text.ends_with("\xEF\xBF\xBE") || text.ends_with("\xEF\xBF\xBF")) text.back() = '\xBD';
  }
  return text;
}

}  // namespace vram
